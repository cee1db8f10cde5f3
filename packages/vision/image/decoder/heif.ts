import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/**
 * libheif in WebAssembly, which decodes the HEVC of a phone's pictures; libvips here decodes only AV1. It is loaded at
 * the first HEIF file.
 */

/** The functions of libheif that are used, as emscripten offers them: a structure is returned through the first pointer. */
interface LibHeif {
  readonly HEAPU8: Uint8Array;
  readonly HEAP32: Int32Array;
  _malloc(size: number): number;
  _free(pointer: number): void;
  _heif_context_alloc(): number;
  _heif_context_free(context: number): void;
  _heif_context_read_from_memory_without_copy(
    ...numbers: [error: number, context: number, data: number, size: number, options: number]
  ): void;
  _heif_context_set_maximum_image_size_limit(context: number, side: number): void;
  _heif_context_get_primary_image_handle(error: number, context: number, out: number): void;
  _heif_image_handle_release(handle: number): void;
  _heif_image_handle_get_width(handle: number): number;
  _heif_image_handle_get_height(handle: number): number;
  _heif_image_handle_get_luma_bits_per_pixel(handle: number): number;
  _heif_image_handle_has_alpha_channel(handle: number): number;
  _heif_image_handle_get_raw_color_profile_size(handle: number): number;
  _heif_image_handle_get_raw_color_profile(error: number, handle: number, out: number): void;
  _heif_image_handle_get_nclx_color_profile(error: number, handle: number, out: number): void;
  _heif_nclx_color_profile_free(profile: number): void;
  _heif_decoding_options_alloc(): number;
  _heif_decoding_options_free(options: number): void;
  _heif_decode_image(
    ...numbers: [error: number, handle: number, out: number, space: number, chroma: number, options: number]
  ): void;
  _heif_image_release(image: number): void;
  _heif_image_get_width(image: number, channel: number): number;
  _heif_image_get_height(image: number, channel: number): number;
  _heif_image_get_plane_readonly(image: number, channel: number, stride: number): number;
}

export interface HeifPixels {
  readonly width: number;
  readonly height: number;
  readonly channels: 3 | 4;
  /** One byte for each sample, or two (little-endian, all 16 bits used). */
  readonly data: Uint8Array;
  readonly deep: boolean;
}

/** Numbers of ISO/IEC 23091-2. */
export interface Nclx {
  readonly primaries: number;
  readonly transfer: number;
}

export interface OpenHeif {
  readonly width: number;
  readonly height: number;
  readonly profile: Buffer | undefined;
  readonly nclx: Nclx | undefined;
  /** Decodes the primary picture, upright. Only HEVC can be decoded. */
  decode(): HeifPixels;
  close(): void;
}

const RGB = 1;
/** Numbers of `heif_chroma`. */
const CHROMA = { rgb: 10, rgba: 11, rgbDeep: 14, rgbaDeep: 15 };
const INTERLEAVED = 10;
/** Place of `strict_decoding` in `heif_decoding_options`: without it, a tile that is missing is left black. */
const STRICT_AT = 21;
const ERROR_BYTES = 12;

let loaded: LibHeif | undefined;

function load(): LibHeif {
  if (loaded) return loaded;
  const require = createRequire(import.meta.url);
  const make = require('libheif-js/libheif-wasm/libheif.js') as (options: {
    wasmBinary: Uint8Array;
  }) => LibHeif;
  loaded = make({ wasmBinary: readFileSync(require.resolve('libheif-js/libheif-wasm/libheif.wasm')) });
  return loaded;
}

/**
 * Reads the header of a HEIF file and of its primary picture.
 * @throws Error that says what libheif found wrong
 */
export function openHeif(file: Uint8Array): OpenHeif {
  const lib = load();
  const error = lib._malloc(ERROR_BYTES);
  const out = lib._malloc(8);
  const bytes = lib._malloc(file.length);
  if (!bytes) throw new Error('the file is too large for the decoder of HEIF');
  lib.HEAPU8.set(file, bytes);
  const context = lib._heif_context_alloc();
  let handle = 0;
  const close = () => {
    if (handle) lib._heif_image_handle_release(handle);
    lib._heif_context_free(context);
    for (const pointer of [error, out, bytes]) lib._free(pointer);
  };
  try {
    lib._heif_context_read_from_memory_without_copy(error, context, bytes, file.length, 0);
    check(lib, error);
    lib._heif_context_get_primary_image_handle(error, context, out);
    check(lib, error);
    handle = word(lib, out);
    return {
      width: lib._heif_image_handle_get_width(handle),
      height: lib._heif_image_handle_get_height(handle),
      profile: profileOf(lib, handle, error),
      nclx: nclxOf(lib, handle, error, out),
      decode: () => decode(lib, handle, error, out),
      close,
    };
  } catch (fault) {
    close();
    throw fault;
  }
}

const word = (lib: LibHeif, pointer: number) => lib.HEAP32[pointer >> 2] as number;

/** `heif_error`: a code, a second one, and a text. */
function check(lib: LibHeif, error: number): void {
  if (word(lib, error) === 0) return;
  const at = word(lib, error + 8) >>> 0;
  const end = lib.HEAPU8.indexOf(0, at);
  throw new Error(`libheif: ${Buffer.from(lib.HEAPU8.subarray(at, Math.min(end, at + 500))).toString()}`);
}

function profileOf(lib: LibHeif, handle: number, error: number): Buffer | undefined {
  const size = lib._heif_image_handle_get_raw_color_profile_size(handle);
  if (size === 0) return undefined;
  const to = lib._malloc(size);
  lib._heif_image_handle_get_raw_color_profile(error, handle, to);
  const profile = Buffer.from(lib.HEAPU8.subarray(to, to + size));
  lib._free(to);
  check(lib, error);
  return profile;
}

function nclxOf(lib: LibHeif, handle: number, error: number, out: number): Nclx | undefined {
  lib._heif_image_handle_get_nclx_color_profile(error, handle, out);
  // That there is none is an error here.
  if (word(lib, error) !== 0) return undefined;
  const profile = word(lib, out);
  // A byte with the version, and then the numbers as words.
  const nclx = { primaries: word(lib, profile + 4), transfer: word(lib, profile + 8) };
  lib._heif_nclx_color_profile_free(profile);
  return nclx;
}

function decode(lib: LibHeif, handle: number, error: number, out: number): HeifPixels {
  const bits = lib._heif_image_handle_get_luma_bits_per_pixel(handle);
  const deep = bits > 8;
  const alpha = lib._heif_image_handle_has_alpha_channel(handle) !== 0;
  const chroma = deep ? (alpha ? CHROMA.rgbaDeep : CHROMA.rgbDeep) : alpha ? CHROMA.rgba : CHROMA.rgb;
  const options = lib._heif_decoding_options_alloc();
  lib.HEAPU8[options + STRICT_AT] = 1;
  lib._heif_decode_image(error, handle, out, RGB, chroma, options);
  lib._heif_decoding_options_free(options);
  check(lib, error);
  const image = word(lib, out);
  try {
    const width = lib._heif_image_get_width(image, INTERLEAVED);
    const height = lib._heif_image_get_height(image, INTERLEAVED);
    const plane = lib._heif_image_get_plane_readonly(image, INTERLEAVED, out) >>> 0;
    const stride = word(lib, out);
    const channels = alpha ? 4 : 3;
    const row = width * channels * (deep ? 2 : 1);
    if (!plane || width < 1 || height < 1 || stride < row) throw new Error('libheif gave no pixels');
    const data = new Uint8Array(row * height);
    for (let y = 0; y < height; y++) {
      const from = plane + y * stride;
      data.set(lib.HEAPU8.subarray(from, from + row), y * row);
    }
    if (deep) spread(new Uint16Array(data.buffer), bits);
    return { width, height, channels, data, deep };
  } finally {
    lib._heif_image_release(image);
  }
}

/** Fills 16 bits: the largest value of ten bits becomes the largest of sixteen. */
function spread(samples: Uint16Array, bits: number): void {
  const down = 2 * bits - 16;
  for (let i = 0; i < samples.length; i++) {
    const value = samples[i] as number;
    samples[i] = (value << (16 - bits)) | (value >> down);
  }
}
