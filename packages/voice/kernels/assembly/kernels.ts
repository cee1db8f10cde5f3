/**
 * The inner loops of the voice converters in AssemblyScript, with four samples at once (WebAssembly SIMD), which
 * JavaScript lacks. Pointers are byte offsets into the module's own memory, whose layout the caller sets
 * (kernels.ts). Counts are in samples. Sound has 32 bits; sums over a window and positions between samples have 64
 * bits. Nothing is checked here.
 */

/** Start of the caller's memory. */
export const heapBase: usize = __heap_base;

/** Number of samples from which one interpolated value is made, and of positions between two samples with weights. */
const TAPS: i32 = 16;
const PHASES: f64 = 256;
/** Distance from the first of these samples to the position. */
const BEFORE: i32 = 7;

function sumOf(v: v128): f32 {
  const pairs = f32x4.add(v, v128.shuffle<f32>(v, v, 2, 3, 0, 1));
  return f32x4.extract_lane(pairs, 0) + f32x4.extract_lane(pairs, 1);
}

/** Number of rows of `dots`. */
const ROWS: i32 = 8;

/**
 * Multiplies eight rows with each of many vectors (dot products).
 * @param width numbers of a row and of a vector, a multiple of 4
 * @param out eight products for each of the `count` vectors
 */
export function dots(rows: usize, vectors: usize, width: i32, count: i32, out: usize): void {
  const bytes = (<usize>width) << 2;
  for (let i = 0; i < count; i++) {
    for (let row = 0; row < ROWS; row += 4) {
      const first = rows + <usize>row * bytes;
      let a = f32x4.splat(0);
      let b = f32x4.splat(0);
      let c = f32x4.splat(0);
      let d = f32x4.splat(0);
      for (let k: usize = 0; k < bytes; k += 16) {
        const values = v128.load(vectors + k);
        a = f32x4.add(a, f32x4.mul(values, v128.load(first + k)));
        b = f32x4.add(b, f32x4.mul(values, v128.load(first + bytes + k)));
        c = f32x4.add(c, f32x4.mul(values, v128.load(first + 2 * bytes + k)));
        d = f32x4.add(d, f32x4.mul(values, v128.load(first + 3 * bytes + k)));
      }
      store<f32>(out, sumOf(a));
      store<f32>(out, sumOf(b), 4);
      store<f32>(out, sumOf(c), 8);
      store<f32>(out, sumOf(d), 12);
      out += 16;
    }
    vectors += bytes;
  }
}

/**
 * Filters every `step`-th sample.
 * @param input `taps` samples for each filtered position
 * @param taps a multiple of 8
 * @param out `count` samples
 */
export function filter(input: usize, kernel: usize, taps: i32, out: usize, count: i32, step: i32): void {
  for (let i = 0; i < count; i++) {
    let even = f32x4.splat(0);
    let odd = f32x4.splat(0);
    for (let k: usize = 0; k < (<usize>taps) << 2; k += 32) {
      even = f32x4.add(even, f32x4.mul(v128.load(input + k), v128.load(kernel + k)));
      odd = f32x4.add(odd, f32x4.mul(v128.load(input + k, 16), v128.load(kernel + k, 16)));
    }
    store<f32>(out + ((<usize>i) << 2), sumOf(f32x4.add(even, odd)));
    input += (<usize>step) << 2;
  }
}

/**
 * Computes the normalised square difference of two windows for each lag from `first` to `last`: 1 for equal
 * windows, 0 without sound. Both windows are equally far from the middle of `length` samples.
 * @param energy 64-bit: at `i` the sum of the squares of the first `i` samples
 * @param window a multiple of 4
 * @param out one value per lag
 */
export function likeness(
  samples: usize,
  length: i32,
  energy: usize,
  window: i32,
  first: i32,
  last: i32,
  out: usize,
): void {
  for (let lag = first; lag <= last; lag++) {
    const a = (length - window - lag) >> 1;
    const b = a + lag;
    const one = samples + ((<usize>a) << 2);
    const other = samples + ((<usize>b) << 2);
    let sum = f32x4.splat(0);
    for (let k: usize = 0; k < (<usize>window) << 2; k += 16)
      sum = f32x4.add(sum, f32x4.mul(v128.load(one + k), v128.load(other + k)));
    const both = energyOf(energy, a, window) + energyOf(energy, b, window);
    store<f32>(out, both > 0 ? <f32>((2 * <f64>sumOf(sum)) / both) : 0);
    out += 4;
  }
}

function energyOf(energy: usize, from: i32, window: i32): f64 {
  const at = energy + ((<usize>from) << 3);
  return load<f64>(at + ((<usize>window) << 3)) - load<f64>(at);
}

/**
 * Adds one grain to `count` samples. A grain is a period of the sound around `mark`, read at `speed`, with its mark
 * moved to `at`. It rises for `rise` samples before `at`, ends `end` samples after it, and falls over the last
 * `fall` of these.
 * @param data a ring of mask + 1 samples, whose first {@link TAPS} are repeated after its end
 * @param table weights of each position between two samples, a row of {@link TAPS} for each
 * @param rises 64-bit: the window's rise in `steps` steps from 0 to 1, and one more
 * @param out 64-bit; its first sample has the number `first`
 */
export function grain(
  data: usize,
  mask: i32,
  table: usize,
  rises: usize,
  steps: f64,
  out: usize,
  first: f64,
  count: i32,
  at: f64,
  mark: f64,
  speed: f64,
  rise: f64,
  end: f64,
  fall: f64,
  gain: f64,
): void {
  const from = <i32>max<f64>(0, ceil(at - rise) - first);
  const to = <i32>min<f64>(count, ceil(at + end) - first);
  for (let i = from; i < to; i++) {
    const d = first + <f64>i - at;
    let weight = gain;
    if (d < 0) weight *= risen((d + rise) / rise, rises, steps);
    else if (d > end - fall) weight *= risen((end - d) / fall, rises, steps);
    const place = mark + speed * d;
    const whole = floor(place);
    const row = table + ((<usize>nearest((place - whole) * PHASES) * TAPS) << 2);
    const start = data + ((<usize>((<i32>(<i64>whole) - BEFORE) & mask)) << 2);
    const sum = f32x4.add(
      f32x4.add(
        f32x4.mul(v128.load(start), v128.load(row)),
        f32x4.mul(v128.load(start, 16), v128.load(row, 16)),
      ),
      f32x4.add(
        f32x4.mul(v128.load(start, 32), v128.load(row, 32)),
        f32x4.mul(v128.load(start, 48), v128.load(row, 48)),
      ),
    );
    const place64 = out + ((<usize>i) << 3);
    store<f64>(place64, load<f64>(place64) + weight * <f64>sumOf(sum));
  }
}

function risen(x: f64, rises: usize, steps: f64): f64 {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const place = x * steps;
  const whole = floor(place);
  const at = rises + ((<usize>whole) << 3);
  const left = load<f64>(at);
  return left + (place - whole) * (load<f64>(at, 8) - left);
}
