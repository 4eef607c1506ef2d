# SPDX-License-Identifier: Apache-2.0
"""The parser of transforms against Python and torchvision: the same text, evaluated by both."""

import json
import os
import random
import re
import subprocess
import warnings
from pathlib import Path

import numpy as np
import PIL
import pytest
from PIL import Image

torch = pytest.importorskip('torch')
torchvision = pytest.importorskip('torchvision')
from torchvision import transforms  # noqa: E402
from torchvision.transforms import functional  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get('STOKER_BUILD', ROOT / 'build/tests'))
DUMP = BUILD / 'tests/unit/transform_text_dump'

NAMES = {name: getattr(transforms, name) for name in dir(transforms) if name[0].isupper()}
NAMES.update(transforms=transforms, T=transforms, torchvision=torchvision, torch=torch,
             Image=Image, PIL=PIL, Resampling=Image.Resampling, F=functional, TF=functional)


def parse(texts):
    """What stoker makes of each text: {'steps': [...]} or {'error': ..., ...}."""
    run = subprocess.run([DUMP], input=b''.join(text.encode() + b'\0' for text in texts),
                         capture_output=True, timeout=300)
    assert run.returncode == 0, run.stderr.decode()
    answers = [json.loads(line) for line in run.stdout.decode().splitlines()]
    assert len(answers) == len(texts)
    return answers


def flat(value):
    """The transforms in nested Compose and tuples, in order."""
    if isinstance(value, (tuple, list)):
        return [step for item in value for step in flat(item)]
    return flat(value.transforms) if isinstance(value, transforms.Compose) else [value]


def evaluate(text):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return flat(eval(text, dict(NAMES)))  # noqa: S307


# ---- what a step is, in one form for both ----

def as_list(value, default=()):
    if value is None:
        return list(default)
    return [value] if isinstance(value, (int, float)) else list(value)


def one_or_all(value, default=(0,)):
    """A list of which one number stands for all."""
    value = as_list(value, default) or list(default)
    return value[:1] if len(set(value)) == 1 else value


def floats(values):
    """Numbers so that == compares every bit but the sign of 0."""
    return [float(v) for v in as_list(values)]


def edges(padding):
    padding = as_list(padding, [0]) or [0]
    if len(padding) < 4:
        padding = [padding[0], padding[-1]] * 2
    return padding


def both(size):
    size = as_list(size)
    return size * 2 if len(size) == 1 else size


def singles(values):
    return one_or_all(np.asarray(values, dtype=np.float64).astype(np.float32).ravel().tolist())


def theirs(step):
    """The numbers of a transform of torchvision's."""
    a = vars(step)
    name = type(step).__name__
    filter = {'interpolation': a['interpolation'].value} if 'interpolation' in a else {}
    fill = {'fill': one_or_all(a['fill'])} if 'fill' in a else {}
    mode = {'padding_mode': a['padding_mode']} if 'padding_mode' in a else {}
    p = {'p': float(a['p'])} if 'p' in a else {}
    own = {
        'Resize': lambda: {'size': as_list(a['size']), 'max_size': a['max_size'] or 0},
        'CenterCrop': lambda: {'size': list(a['size'])},
        'Pad': lambda: {'padding': edges(a['padding'])},
        'RandomCrop': lambda: {'size': list(a['size']), 'padding': edges(a['padding']),
                               'pad_if_needed': a['pad_if_needed']},
        'RandomResizedCrop': lambda: {'size': list(a['size']), 'scale': floats(a['scale']),
                                      'ratio': floats(a['ratio'])},
        'RandomRotation': lambda: {'degrees': floats(a['degrees']), 'expand': a['expand'],
                                   'center': floats(a['center'])},
        'RandomAffine': lambda: {key: floats(a[key]) for key in
                                 ('degrees', 'translate', 'scale', 'shear', 'center')},
        'ColorJitter': lambda: {key: floats(a[key]) for key in
                                ('brightness', 'contrast', 'saturation', 'hue')},
        'GaussianBlur': lambda: {'kernel_size': list(a['kernel_size']),
                                 'sigma': floats(a['sigma'])},
        'RandomErasing': lambda: {
            'scale': floats(a['scale']), 'ratio': floats(a['ratio']),
            'value': 'random' if a['value'] == 'random' else floats(one_or_all(a['value']))},
        'Grayscale': lambda: {'channels': a['num_output_channels']},
        'Normalize': lambda: {'mean': singles(a['mean']), 'std': singles(a['std'])},
        'ConvertImageDtype': lambda: {'dtype': str(a['dtype'])},
    }.get(name, dict)()
    return {'name': name, **filter, **fill, **mode, **p, **own}


def ours(step, keys):
    """The same members of a step of the parser's."""
    name = step['name']
    forms = {
        'size': as_list if name == 'Resize' else both, 'padding': edges, 'fill': one_or_all,
        'kernel_size': both, 'mean': singles, 'std': singles,
        'value': lambda v: 'random' if step['random_value'] else floats(one_or_all(v)),
    }
    return {key: forms.get(key, lambda v: v)(step[key]) for key in keys}


def differences(text, answer):
    """How the parser's answer differs from what torchvision made of the text; '' for not at all."""
    if 'error' in answer:
        return f'{text}\n  is refused: {answer["error"]}'
    want = [theirs(step) for step in evaluate(text)]
    if len(want) != len(answer['steps']):
        return f'{text}\n  has {len(answer["steps"])} steps, not {len(want)}'
    got = [ours(step, keys) for step, keys in zip(answer['steps'], want)]
    return '' if got == want else f'{text}\n  is    {got}\n  wants {want}'


def assert_same(texts):
    wrong = [text for text in map(differences, texts, parse(texts)) if text]
    assert not wrong, f'{len(wrong)} of {len(texts)}:\n' + '\n'.join(wrong[:10])


# ---- pipelines as people write them ----

PIPELINES = [
    # the examples of torchvision's and PyTorch's documentation and of well-known repositories
    '''transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(mean=[0.485, 0.456, 0.406],
                             std=[0.229, 0.224, 0.225])
    ])''',
    '''transforms.Compose([
        transforms.RandomCrop(32, padding=4),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    ])''',
    '''T.Compose([
        T.RandomResizedCrop(size=96, scale=(0.2, 1.0)),  # SimCLR
        T.RandomHorizontalFlip(p=0.5),
        T.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1),
        T.RandomGrayscale(p=0.2),
        T.GaussianBlur(kernel_size=9, sigma=(0.1, 2.0)),
        T.ToTensor(),
        T.Normalize((0.5,), (0.5,)),
    ])''',
    '''transforms.Compose([
        transforms.RandomHorizontalFlip(),
        transforms.PILToTensor(),
        transforms.ConvertImageDtype(torch.float),
        transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        transforms.RandomErasing(),
    ])''',
    '''torchvision.transforms.Compose([
        torchvision.transforms.Resize(int(224 / 0.875),
            interpolation=torchvision.transforms.InterpolationMode.BICUBIC),
        torchvision.transforms.CenterCrop(224), torchvision.transforms.ToTensor(),
        torchvision.transforms.Normalize([0.5] * 3, [0.5] * 3)])''',
    'Resize(int(32 * 1.15)), RandomRotation(degrees=(-10, +10), fill=(0,)), ToTensor()',
    'RandomAffine(degrees=0, translate=(0.1, 0.1), scale=(0.9, 1.1), shear=5), ToTensor(),',
    'RandomAffine(20, (.1, .2), None, [-5, 5, -1, 1.5], Image.BILINEAR, 128, (16, 16)),',
    'RandomResizedCrop((16, 32), ratio=(3. / 4., 4. / 3.)), ToTensor()',
    'RandomResizedCrop(16, (1/4, 1), (3/4, 4/3), InterpolationMode.BICUBIC), ToTensor()',
    'Grayscale(num_output_channels=3), ToTensor(), Normalize([125.3/255, 123./255, 113.9/255],'
    ' [63.0/255.0, 62.1/255.0, 66.7/255.0])',
    'ToTensor(), RandomErasing(p=1, scale=(0.02, 0.4), ratio=(0.3, 1/0.3), value="random")',
    'Compose([Compose([Resize(8)]), Compose([CenterCrop(4), Compose([ToTensor()])])])',
    'Compose((ToTensor(),)), ConvertImageDtype(torch.float16), ConvertImageDtype(torch.half),'
    ' ConvertImageDtype(torch.bfloat16), ConvertImageDtype(dtype=torch.float32),'
    ' ConvertImageDtype(torch.uint8)',
    'Normalize(0.5, 0.25, inplace=True),',
    'Normalize(mean=(0.1), std=(0.3081)),',
    'Pad((1, 2)), Pad([3]), Pad((1, 2, 3, 4), (9, 8, 7)), Pad(4, padding_mode="reflect")',
]


def test_pipelines_as_people_write_them():
    assert_same(PIPELINES)


def test_an_assignment_is_taken_too():
    texts = [f'train_transform = {PIPELINES[0]}', f'self.t = {PIPELINES[0]}', f'{PIPELINES[0]}']
    first, second, plain = parse(texts)
    assert first == second == plain and len(plain['steps']) == 4


def mutated(draw, text):
    """The text with one to three small changes."""
    pieces = ['(', ')', '[', ']', ',', '=', '.', '-', '+', '*', '/', '0', '1', '5', 'e', '_', 'x', ' ',
              '\n', '#', '"', "'", 'None', 'True', 'p=', '1.5', '(1, 2)', '[3]', 'T.', 'int(', '//']
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        at = draw.randrange(len(text))
        cut = draw.choice([0, 0, 1, 1, 2, 5])
        text = text[:at] + draw.choice(['', *pieces]) + text[at + cut:]
    return text


def test_what_is_taken_is_python():
    """Whatever the parser takes, Python takes, and makes the same of it."""
    draw = random.Random(3)
    texts = {mutated(draw, draw.choice(PIPELINES)) for _ in range(60000)}
    texts = sorted(text for text in texts if text)
    taken = [(text, answer) for text, answer in zip(texts, parse(texts)) if 'steps' in answer]
    wrong = []
    for text, answer in taken:
        try:
            value = re.sub(r'^\s*\w+(\s*\.\s*\w+)*\s*=', '', text)  # an assignment has none
            wrong.append(differences(f'(\n{value}\n)', answer))
        except Exception as error:
            if not text.strip() or not answer['steps']:
                continue  # nothing at all is an empty pipeline
            wrong.append(f'{text}\n  is taken, and Python says {error!r}')
    wrong = [text for text in wrong if text]
    assert not wrong, f'{len(wrong)} of {len(taken)}:\n' + '\n'.join(wrong[:10])
    assert len(taken) > 800


# ---- arithmetic ----

def expression(random, depth):
    """Arithmetic that Python and the parser both understand."""
    kind = random.randrange(9 if depth else 3)
    if kind == 0:
        return str(random.choice([0, 1, 2, 3, 7, 10, 255, 1000, 0x7fffffff]))
    if kind == 1:
        return repr(random.choice([0.5, 0.1, 1.5, 2.5, 3.25, 1e-3, 255.0, 1e10, 0.0]))
    if kind == 2:
        return random.choice(['.5', '3.', '1e2', '0x1F', '1_000', '0b11', '1E-2', '00'])
    inner = expression(random, depth - 1)
    if kind == 3:
        return f'({inner})'
    if kind == 4:
        return random.choice(['-', '+', '- ', '--']) + inner
    if kind == 5:
        return f'{random.choice(["int", "float", "round"])}({inner})'
    operator = random.choice([' + ', '-', '*', ' / ', '/', ' // ', '+'])
    return inner + operator + expression(random, depth - 1)


def test_arithmetic_is_that_of_python():
    draw = random.Random(5)
    texts, values, refused = [], [], []
    while len(texts) < 3000:
        text = expression(draw, 4)
        try:
            value = eval(text)  # noqa: S307
        except ZeroDivisionError:
            refused.append(f'RandomErasing(value={text})')
            continue
        if abs(value) < 1e38:
            texts.append(f'RandomErasing(value={text})')
            values.append(value)
    wrong = []
    for text, value, answer in zip(texts, values, parse(texts)):
        if 'error' in answer:
            # what is said not to be understood
            if 'whole numbers' not in answer['error']:
                wrong.append(f'{text}: {answer["error"]}')
        elif answer['steps'][0]['value'] != [float(value)]:
            wrong.append(f'{text} = {value!r}, not {answer["steps"][0]["value"]}')
    assert not wrong, '\n'.join(wrong[:10])
    assert sum('error' in answer for answer in parse(texts)) < len(texts) / 4
    assert len(refused) > 50
    assert all('division by zero' in answer.get('error', '') or 'whole numbers' in answer['error']
               for answer in parse(refused))


# ---- all forms of all arguments ----

SIZE = ['8', '(8, 12)', '[8]', '[12, 8,]', '16 // 2', '(4 + 4)', '(8,)', '8.7', '0', '-3', '()',
        '(1, 2, 3)', 'None', '"8"', '24 / 3']
RANGE = ['(0.5, 1)', '[0.25, 0.75]', '(1, 1)', '(0.3, 0.2)', '0.5', '(0.5,)', 'None', '"x"',
         '(-0.5, 0.5)', '(0, 0)', '(1/3, 2/3)']
DEGREES = ['10', '0', '30.5', '(-10, 20)', '[0, 0]', '(10, -10)', '-5', 'None', '(1, 2, 3)', '(5,)',
           '(-180, 180)', '2 * 45']
FILTER = ['InterpolationMode.NEAREST', 'transforms.InterpolationMode.BILINEAR', '2', '3', '0',
          'T.InterpolationMode.BICUBIC', 'Image.BILINEAR', 'InterpolationMode.CUBIC', '7',
          'F.InterpolationMode.NEAREST', 'torchvision.transforms.InterpolationMode.BICUBIC']
ANY_FILTER = FILTER + ['InterpolationMode.BOX', 'InterpolationMode.HAMMING', 'Image.LANCZOS', '1',
                       '4', '5']
FILL = ['0', '7', '255', '(1, 2, 3)', '[4, 5, 6]', '(1, 2)', '256', '-1', '"red"']
MAP_FILL = FILL[:-1] + ['None', '0.0', '[7.0, 8.0, 9.0]']
PADDING = ['0', '3', '(1, 2)', '[1, 2, 3, 4]', '(1, 2, 3)', '"1"', '[2]', '()']
MODE = ['"constant"', "'edge'", '"reflect"', "'symmetric'", '"wrap"', '0', 'None']
BOOL = ['True', 'False']
CENTER = ['None', '(0, 0)', '[3, 4.5]', '(1,)', '5', '(1, 2, 3)', '(-2, 40)']
P = ['0', '1', '0.25', '1/3', '.5', '"x"', 'None', '(0.5,)']
FACTOR = ['0', '0.4', '1', '1.5', '(0.5, 1.5)', '[1, 1]', '(0, 2)', '(1.5, 0.5)', '-0.1', '(1,)',
          'None', '"x"', '(0.25, 1)', '1/3']

ARGUMENTS = {
    'Resize': {'size': SIZE, 'interpolation': ANY_FILTER, 'max_size': ['None', '20', '8', '9'],
               'antialias': ['True', 'False', 'None']},
    'CenterCrop': {'size': SIZE},
    'Pad': {'padding': PADDING, 'fill': FILL, 'padding_mode': MODE},
    'RandomCrop': {'size': SIZE, 'padding': PADDING + ['None'], 'pad_if_needed': BOOL,
                   'fill': FILL, 'padding_mode': MODE},
    'RandomResizedCrop': {'size': SIZE, 'scale': RANGE, 'ratio': RANGE,
                          'interpolation': ANY_FILTER, 'antialias': ['True', 'None']},
    'RandomHorizontalFlip': {'p': P},
    'RandomVerticalFlip': {'p': P},
    'RandomGrayscale': {'p': P},
    'RandomRotation': {'degrees': DEGREES, 'interpolation': ANY_FILTER, 'expand': BOOL,
                       'center': CENTER, 'fill': MAP_FILL},
    'RandomAffine': {'degrees': DEGREES,
                     'translate': ['None', '(0.1, 0.3)', '[0.5, 0]', '(1, 1)', '(1.5, 0)', '0.1',
                                   '(0.1,)', '(0, -0.1)', '(1/3, 1/7)'],
                     'scale': ['None', '(0.5, 1.5)', '[1, 1]', '(0, 1)', '(1.5, 0.5)', '(1,)',
                               '(2/3, 3/2)', '0.5'],
                     'shear': DEGREES + ['(1, 2, 3, 4)', '[0, 0, -5, 5]', '(2, 1, 3, 4)'],
                     'interpolation': ANY_FILTER, 'fill': MAP_FILL, 'center': CENTER},
    'ColorJitter': {'brightness': FACTOR, 'contrast': FACTOR, 'saturation': FACTOR,
                    'hue': ['0', '0.1', '0.5', '0.6', '(-0.1, 0.2)', '[0, 0]', '(-0.6, 0)',
                            '(0.2, -0.2)', '-0.1', '(0.1,)', '(-0.5, 0.5)', '(0, 0.51)']},
    'GaussianBlur': {'kernel_size': ['3', '5', '(3, 5)', '[7]', '(5, 3)', '4', '0', '-3', '(3, 4)',
                                     '(3, 5, 7)', '5.0', 'None', '"3"', '(1, 1)', '3.9'],
                     'sigma': ['1', '0.5', '(0.1, 2)', '[1, 1]', '0', '-1', '(2, 1)', '(0, 1)',
                               '(1,)', 'None', '1/3']},
    'RandomErasing': {'p': P, 'scale': RANGE, 'ratio': RANGE,
                      'value': ['0', '0.5', '(1, 2, 3)', '[0.1, 0.2, 0.3]', '"random"', '"zero"',
                                'None', '[4]', '-1', '(1, 2)'],
                      'inplace': BOOL},
    'Grayscale': {'num_output_channels': ['1', '3']},
    'Normalize': {'mean': ['0.5', '(0.5,)', '[0.1, 0.2, 0.3]', '(1/3, 2/3, .1)', '[0.5] * 3'],
                  'std': ['1', '(0.5,)', '[0.1, 0.2, 0.3]', '(0.2,) * 3', '(1, 1e-3, 1e3)'],
                  'inplace': BOOL},
    'ConvertImageDtype': {'dtype': ['torch.float32', 'torch.uint8', 'torch.half', 'torch.float',
                                    'torch.bfloat16', 'torch.float16']},
    'ToTensor': {}, 'PILToTensor': {},
}

# What torchvision refuses only when it comes to use the value, if it does at all, or takes for something
# else: (what stands at the place of the error, words of the error).
STRICTER = [
    ('0', 'size must be a whole number from 1'),  # an empty picture
    ('256', 'fill must be'), ('-1', 'fill must be'),  # Pillow clips
    ('(1, 2)', 'fill has 2 values'), ('"red"', 'found'),  # unused where nothing is filled
    ('"wrap"', "'constant'"), ('0', "'constant'"), ('None', "'constant'"),
    ('0.6', 'hue'),  # fails for some of the hues that it draws
    ('-0.5', 'scale must be from 0'),  # fails for some of the scales that it draws
    ('', 'NEAREST, BILINEAR or BICUBIC only'),  # Pillow does not look when the angle is 0
]


def is_stricter(text, answer):
    place = text[answer.get('column', 1) - 1:]
    return any(place.startswith(value) and words in answer.get('error', '')
               for value, words in STRICTER)


def apply(step):
    """Run a transform on pictures as often as shows what it makes of its arguments."""
    picture = Image.fromarray(np.arange(32 * 40 * 3, dtype='u1').reshape(32, 40, 3))
    tensors = ('RandomErasing', 'Normalize', 'ConvertImageDtype')
    tensor = functional.to_tensor(picture)
    if hasattr(step, 'p'):
        bool(torch.rand(1) < step.p)
        step.p = 1
    for _ in range(3):
        step(tensor.clone() if type(step).__name__ in tensors else picture)


def torchvision_says(text):
    """'made' and works, 'fails' when used, or 'refused'."""
    try:
        steps = evaluate(text)
    except Exception:
        return 'refused'
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            apply(steps[0])
    except Exception:
        return 'fails'
    return 'made'


def calls(name):
    """The transform with each value of each argument by name, and with mixtures of valid ones, some by
    position and the others by name in any order."""
    arguments = ARGUMENTS[name]
    draw = random.Random(name)
    usual = {key: values[0] for key, values in arguments.items()}
    required = [key for key in arguments if key in
                ('size', 'degrees', 'padding', 'kernel_size', 'mean', 'std', 'dtype')
                and not (name == 'RandomCrop' and key == 'padding')]
    found = []
    for key, values in arguments.items():
        for value in values:
            others = [f'{other}={usual[other]}' for other in required if other != key]
            found.append(f'{name}({", ".join([*others, f"{key}={value}"])})')
    for _ in range(200 if len(arguments) > 1 else 5):
        positional = draw.randrange(len(arguments) + 1)
        chosen = [draw.choice(values) for values in arguments.values()]
        by_name = [f'{key}={value}' for key, value in list(zip(arguments, chosen))[positional:]
                   if key in required or draw.random() < 0.7]
        draw.shuffle(by_name)
        found.append(f'{name}({", ".join(chosen[:positional] + by_name)})')
    found += [f'{name}()', f'{name}(1, 2, 3, 4, 5, 6, 7, 8)', f'{name}(unheard_of=1)']
    return found


@pytest.mark.parametrize('name', sorted(ARGUMENTS))
def test_all_forms_of_all_arguments(name):
    texts = calls(name)
    count = dict.fromkeys(('made', 'fails', 'refused'), 0)
    wrong = []
    for text, answer in zip(texts, parse(texts)):
        says = torchvision_says(text)
        count[says] += 1
        if says == 'made' and not is_stricter(text, answer):
            wrong.append(differences(text, answer))
        elif says == 'refused' and 'error' not in answer:
            wrong.append(f'{text}\n  is taken, and torchvision refuses it')
        elif says == 'fails' and 'error' not in answer:
            wrong.append(f'{text}\n  is taken, and torchvision fails when it is used')
    wrong = [text for text in wrong if text]
    assert not wrong, f'{len(wrong)} of {len(texts)}:\n' + '\n'.join(wrong[:12])
    assert count['made'] >= 1 and count['refused'] >= 2, count
