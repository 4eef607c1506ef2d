# SPDX-License-Identifier: Apache-2.0
"""Small data sets that tests make for themselves: class folders of PNG files, and IDX."""

import gzip
import os
import struct
import zlib

import numpy as np
from PIL import Image


def pixels(count, shape=(28, 28), seed=0):
    """Varied u8 pictures: gradients under noise, so that every PNG filter gets used."""
    rng = np.random.RandomState(seed)
    height, width = shape[:2]
    ramp = np.add.outer(np.arange(height), np.arange(width)).astype(np.float64)
    if len(shape) == 3:
        ramp = np.repeat(ramp[:, :, None], shape[2], axis=2)
    out = np.empty((count, *shape), np.uint8)
    for i in range(count):
        noise = rng.randint(0, 1 + rng.randint(1, 200), size=shape)
        out[i] = (ramp * rng.uniform(0, 8) + noise) % 256
    return out


def write_folder(root, images, classes):
    """Picture i goes into class i % classes, as ROOT/NAME/I.png; names sort unlike numbers."""
    for i, picture in enumerate(images):
        folder = os.path.join(root, f'class{i % classes}')
        os.makedirs(folder, exist_ok=True)
        Image.fromarray(picture).save(os.path.join(folder, f'{i}.png'),
                                      compress_level=i % 10)
    return str(root)


def png_chunk(name, data):
    return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))


def png_file(header, body, palette=None, transparency=None):
    """A PNG by hand, for forms that Pillow does not write. header: the fields of IHDR."""
    out = b'\x89PNG\r\n\x1a\n' + png_chunk(b'IHDR', struct.pack('>IIBBBBB', *header))
    if palette is not None:
        out += png_chunk(b'PLTE', palette)
    if transparency is not None:
        out += png_chunk(b'tRNS', transparency)
    return out + png_chunk(b'IDAT', zlib.compress(body)) + png_chunk(b'IEND', b'')


def write_png(path, rows, width, bit_depth, colour_type, palette=None, transparency=None):
    """rows: packed bytes of each row."""
    with open(path, 'wb') as file:
        file.write(png_file((width, len(rows), bit_depth, colour_type, 0, 0, 0),
                            b''.join(b'\0' + row for row in rows), palette, transparency))


def write_interlaced(path, grey):
    """A grey picture (H,W u8) in Adam7's seven passes."""
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2),
              (1, 0, 2, 1))
    body = b''.join(b'\0' + row.tobytes() for y, x, dy, dx in passes
                    for row in grey[y::dy, x::dx] if row.size)
    height, width = grey.shape
    with open(path, 'wb') as file:
        file.write(png_file((width, height, 8, 0, 0, 0, 1), body))


def write_mixed_folder(root, size=(20, 24)):
    """Two classes with a file of every colour type: grey of each depth, grey+alpha, RGB, RGBA,
    RGB of 16 bits, palettes of each depth with and without tRNS. All of one size."""
    height, width = size
    rng = np.random.RandomState(7)
    for name in ('even', 'odd'):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    rgb = pixels(2, (height, width, 3), seed=3)
    grey = pixels(2, (height, width), seed=4)
    alpha = rng.randint(0, 256, (height, width, 1)).astype(np.uint8)

    def path(name, i):
        return os.path.join(root, ('even', 'odd')[i % 2], name + '.png')

    Image.fromarray(rgb[0]).save(path('rgb', 0))
    Image.fromarray(grey[0]).save(path('grey8', 1))
    Image.fromarray(np.dstack([rgb[1], alpha])).save(path('rgba', 0))
    Image.fromarray(np.dstack([grey[1], alpha[:, :, 0]]), 'LA').save(path('la', 1))
    for depth in (1, 2, 4):
        packed = [bytes(rng.randint(0, 256, (width * depth + 7) // 8).astype(np.uint8))
                  for _ in range(height)]
        write_png(path(f'grey{depth}', depth), packed, width, depth, 0)
        palette = bytes(rng.randint(0, 256, 3 << depth).astype(np.uint8))
        write_png(path(f'palette{depth}', depth + 1), packed, width, depth, 3, palette)
    rows = [bytes(rng.randint(0, 256, width).astype(np.uint8)) for _ in range(height)]
    palette = bytes(rng.randint(0, 256, 3 * 256).astype(np.uint8))
    write_png(path('palette8', 0), rows, width, 8, 3, palette)
    write_png(path('palette8-trns', 1), rows, width, 8, 3, palette, bytes(range(256)))
    wide = [bytes(rng.randint(0, 256, width * 6).astype(np.uint8)) for _ in range(height)]
    write_png(path('rgb16', 0), wide, width, 16, 2)
    return str(root)


def write_jpeg_folder(root, size=(37, 29)):
    """Two classes of JPEG files of every kind that Pillow writes, and a PNG, all of one size."""
    for name in ('even', 'odd'):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    ramps = np.add.outer(3 * np.arange(size[0]), 2 * np.arange(size[1]))
    channels = np.dstack([ramps, ramps // 2 + 40, 200 - ramps // 3, ramps // 4]) % 256
    count = 0
    for mode, kept in (('L', 1), ('RGB', 3), ('CMYK', 4)):
        pixels_of_mode = channels[:, :, :kept].astype(np.uint8)
        image = Image.fromarray(pixels_of_mode[:, :, 0] if kept == 1 else pixels_of_mode, mode)
        for quality in (10, 75, 100):
            for progressive in (False, True):
                for subsampling in (0, 1, 2):
                    image.save(os.path.join(root, ('even', 'odd')[count % 2], f'{count}.jpg'),
                               quality=quality, progressive=progressive, subsampling=subsampling,
                               optimize=quality == 75)
                    count += 1
    image.convert('RGB').save(os.path.join(root, 'even', 'last.png'))
    return str(root)


def idx_bytes(array):
    """An IDX file of u8 values: magic 00 00 08 rank, big-endian sizes, data."""
    array = np.asarray(array, np.uint8)
    return struct.pack(f'>HBB{array.ndim}I', 0, 8, array.ndim, *array.shape) + array.tobytes()


def idx_typed(array):
    """The same of the array's own type: u8, 16 bits (signed or not) or i32."""
    array = np.asarray(array)
    code = {'u1': 0x08, 'u2': 0x0b, 'i2': 0x0b, 'i4': 0x0c}[array.dtype.str[1:]]
    return (struct.pack(f'>HBB{array.ndim}I', 0, code, array.ndim, *array.shape)
            + array.astype(array.dtype.newbyteorder('>')).tobytes())


def write_idx(root, images, labels, prefix='train', compress=False):
    """The pair of files that MNIST comes as; returns the images file."""
    os.makedirs(root, exist_ok=True)
    suffix = '.gz' if compress else ''
    names = [os.path.join(root, f'{prefix}-{part}-ubyte{suffix}')
             for part in ('images-idx3', 'labels-idx1')]
    for name, array in zip(names, (images, labels)):
        with (gzip.open if compress else open)(name, 'wb') as file:
            file.write(idx_bytes(array))
    return names[0]
