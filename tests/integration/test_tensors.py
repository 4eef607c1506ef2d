# SPDX-License-Identifier: Apache-2.0
"""What follows ToTensor: dtypes, ConvertImageDtype, Normalize and RandomErasing, bit for bit as torch."""

import numpy as np
import pytest

from client import ServerError, all_rows, normalize, pb, to_tensor
from random_steps import (
    T, assert_same_distribution, convert, crop, erasing, expected, grey,
    horizontal_flip, names, normal, parameters, pil_tensor, read, rotation,
    tensor, torch)

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
DTYPES = {pb.DTYPE_U8: torch.uint8, pb.DTYPE_F16: torch.float16, pb.DTYPE_BF16: torch.bfloat16,
          pb.DTYPE_F32: torch.float32}


def check_tensors(daemon, folder, steps, dtype, **options):
    """The rows are, bit for bit, torchvision's tensors turned into the dtype asked for."""
    drawn, samples = parameters(daemon, steps, **options)
    wanted = torch.stack(expected(folder, steps, drawn, samples)).to(DTYPES[dtype])
    rows, _, _ = read(daemon, steps, dtype=dtype, **options)
    interleaved, _, _ = read(daemon, steps, dtype=dtype, layout=pb.LAYOUT_NHWC, **options)
    bits = np.dtype(f'u{rows.dtype.itemsize}')
    wanted = wanted.view(torch.int16).numpy() if bits.itemsize == 2 else wanted.numpy()
    np.testing.assert_array_equal(rows.view(bits), wanted.view(bits))
    np.testing.assert_array_equal(interleaved.view(bits),
                                  wanted.view(bits).transpose(0, 2, 3, 1))
    return drawn


FLOATS = [pb.DTYPE_F16, pb.DTYPE_BF16, pb.DTYPE_F32]


@pytest.mark.parametrize('steps,dtypes', [
    ([tensor()], FLOATS),
    ([tensor(), normal(MEAN, STD)], FLOATS),
    ([grey(), tensor(), normal((0.5,), (0.5,))], FLOATS),
    ([grey(3), tensor(), normal(MEAN, STD), normal((0.1,), (3,))], FLOATS),
    ([pil_tensor()], [pb.DTYPE_U8]),
    ([grey(3), pil_tensor()], [pb.DTYPE_U8]),
    ([pil_tensor(), convert(torch.float32), normal(MEAN, STD)], FLOATS),
    ([pil_tensor(), convert(torch.float16), normal(MEAN, STD)], FLOATS),
    ([pil_tensor(), convert(torch.bfloat16), normal(MEAN, STD)], FLOATS),
    ([tensor(), convert(torch.float16)], FLOATS),
    ([tensor(), normal(MEAN, STD), convert(torch.bfloat16), normal((0.3,), (0.7,))], FLOATS),
    ([tensor(), convert(torch.float16), convert(torch.float32), normal(MEAN, STD)], FLOATS),
    ([tensor(), convert(torch.uint8)], [pb.DTYPE_U8]),
    ([tensor(), normal((1,), (-1,)), convert(torch.uint8)], [pb.DTYPE_U8]),
    ([grey(3), tensor(), normal((0, 1, -0.5), (1, -1, 2)), convert(torch.uint8)], [pb.DTYPE_U8]),
    ([tensor(), convert(torch.uint8), convert(torch.bfloat16)], FLOATS),
], ids=names)
def test_dtypes(start_daemon, rgb_folder, steps, dtypes):
    daemon = start_daemon({'train': rgb_folder})
    for dtype in dtypes:
        check_tensors(daemon, rgb_folder, steps, dtype)


@pytest.mark.parametrize('steps,dtypes', [
    ([tensor(), erasing(0.7)], FLOATS),
    ([tensor(), erasing(0.7, value=(0.25, 1.0, -3.0))], FLOATS),
    ([tensor(), erasing(1, (0.02, 0.9), (0.1, 9)), erasing(0.5, value=(7.0,))], FLOATS),
    ([tensor(), erasing(0.7, value=(0.3, 0.2, 0.1)), normal(MEAN, STD)], FLOATS),
    ([grey(3), tensor(), normal(MEAN, STD), erasing(0.7)], FLOATS),
    ([grey(), tensor(), erasing(0.7, value=(0.123,)), convert(torch.float16)], FLOATS),
    ([pil_tensor(), erasing(0.7, value=(3.0, 200.0, 255.0))], [pb.DTYPE_U8]),
    ([pil_tensor(), erasing(0.7, value=(77.9,)), convert(torch.float32), normal(MEAN, STD)], FLOATS),
    ([tensor(), erasing(0.7, value=(0.3,)), convert(torch.uint8)], [pb.DTYPE_U8]),
], ids=names)
def test_erasing(start_daemon, rgb_folder, steps, dtypes):
    daemon = start_daemon({'train': rgb_folder})
    for dtype in dtypes:
        drawn = check_tensors(daemon, rgb_folder, steps, dtype)
        erased = [drawn[:, i, 1] for i, step in enumerate(steps) if step.kind == 10]
        assert 0.3 < np.mean(erased) <= 1


def random_erasing(p=1.0):
    return pb.Transform(random_erasing=pb.RandomErasing(p=p, random_value=True))


def test_erasing_with_noise(start_daemon, rgb_folder):
    """The rectangle has normally distributed values, other ones in each channel and sample, carried
    through what follows; everything else is as it was."""
    daemon = start_daemon({'train': rgb_folder})
    plain, _, _ = read(daemon, [tensor()])
    head = [to_tensor(), random_erasing()]
    tails = [[], [normalize((0.5,), (2,))],
             [pb.Transform(convert_image_dtype=pb.ConvertImageDtype(dtype=pb.DTYPE_F16)),
              normalize((0.5,), (2,))]]
    with daemon.client() as client:
        drawn = all_rows(client.open('train', transforms=head, rows=pb.ROWS_PARAMETERS,
                                     seed=11))[0][:, 0]
        rows = [all_rows(client.open('train', transforms=head + tail, seed=11))[0]
                for tail in tails]
    noise = []
    for picture, erased, places in zip(plain, rows[0], drawn):
        top, left, height, width = places[1, 2:6].astype(int)
        inside = np.zeros(picture.shape, bool)
        inside[:, top:top + height, left:left + width] = True
        assert (picture == erased)[~inside].all()
        noise.append(erased[inside].reshape(3, -1))
    flat = np.concatenate([n.ravel() for n in noise])
    assert len(set(flat.tolist())) > 0.99 * len(flat) > 5000
    assert_same_distribution(flat, np.random.default_rng(1).normal(size=100_000))
    half = ((torch.from_numpy(rows[0]) - 0.5) / 2).numpy()
    assert (rows[1] == half).all()
    f16 = T.Normalize((0.5,), (2,))(torch.from_numpy(rows[0]).to(torch.float16)).float().numpy()
    assert (rows[2] == f16).all()


# ---- refusals ----

@pytest.mark.parametrize('steps,dtype,says', [
    ([tensor()], pb.DTYPE_U8, 'leave ToTensor out'),
    ([pil_tensor(), convert(torch.float16)], pb.DTYPE_U8, 'end in floats'),
    ([], pb.DTYPE_F16, 'f16 needs ToTensor'),
    ([crop((9, 9))], pb.DTYPE_BF16, 'bf16 needs ToTensor'),
    ([pil_tensor()], pb.DTYPE_F32, 'ConvertImageDtype(torch.float32)'),
    ([pil_tensor()], pb.DTYPE_F16, 'ask for dtype u8'),
    ([pil_tensor(), normal(MEAN, STD)], pb.DTYPE_F32, 'Normalize needs floats'),
    ([tensor(), pil_tensor()], pb.DTYPE_F32, 'PILToTensor stands after ToTensor'),
    ([convert(torch.float16)], pb.DTYPE_F32, 'ConvertImageDtype stands before ToTensor'),
    ([tensor(), normal(MEAN, STD), convert(torch.uint8)], pb.DTYPE_U8, 'outside of 0 .. 1'),
    ([tensor(), convert(torch.float16), convert(torch.uint8)], pb.DTYPE_U8, 'white in f16'),
    ([tensor(), convert(torch.float16), normal((0.5,), (1e-9,))], pb.DTYPE_F32, 'std is 0 in f16'),
    ([tensor(), crop((9, 9))], pb.DTYPE_F32, 'RandomCrop stands after ToTensor'),
    ([erasing()], pb.DTYPE_U8, 'RandomErasing stands before ToTensor'),
    ([pil_tensor(), erasing(value=(300.0,))], pb.DTYPE_U8, 'value 300 does not fit'),
    ([grey(), tensor(), erasing(value=(1.0, 2.0, 3.0))], pb.DTYPE_F32, '3 values for 1 channel'),
    ([rotation((0, 90), expand=True)], pb.DTYPE_U8, 'put CenterCrop'),
    ([rotation((0, 90), expand=True), horizontal_flip()], pb.DTYPE_U8, 'many sizes'),
    ([grey(), rotation((0, 90), fill=(1, 2, 3))], pb.DTYPE_U8, 'fill of 3 values'),
    ([crop((9, 9))], pb.DTYPE_F64, 'PARAMETERS'),
])
def test_refusals(start_daemon, rgb_folder, steps, dtype, says):
    daemon = start_daemon({'train': rgb_folder})
    with daemon.client() as client:
        with pytest.raises(ServerError) as refusal:
            client.open('train', transforms=[s.message for s in steps], dtype=dtype)
    assert refusal.value.code == pb.ERROR_BAD_REQUEST and says in refusal.value.text


def test_refusals_of_noise_and_parameters(start_daemon, rgb_folder):
    daemon = start_daemon({'train': rgb_folder})
    u8 = pb.Transform(convert_image_dtype=pb.ConvertImageDtype(dtype=pb.DTYPE_U8))
    for transforms, options, says in [
            ([pil_tensor().message, random_erasing()], {'dtype': pb.DTYPE_U8}, 'needs floats'),
            ([to_tensor(), random_erasing(), u8], {'dtype': pb.DTYPE_U8}, "value='random'"),
            ([to_tensor(), random_erasing()] + [normalize()] * 9, {}, 'more than 8'),
            ([to_tensor()] + [random_erasing()] * 5, {}, 'more than 4 RandomErasing'),
            ([], {'rows': pb.ROWS_PARAMETERS}, 'no parameters'),
            ([to_tensor()], {'rows': pb.ROWS_PARAMETERS, 'dtype': pb.DTYPE_F32}, 'F64'),
            ([to_tensor(), horizontal_flip().message], {'rows': pb.ROWS_PARAMETERS},
             'stands after ToTensor')]:
        with daemon.client() as client:
            with pytest.raises(ServerError) as refusal:
                client.open('train', transforms=transforms, **options)
        assert refusal.value.code == pb.ERROR_BAD_REQUEST and says in refusal.value.text


