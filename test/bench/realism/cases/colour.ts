/** Linear light, 1 is the brightest that a picture holds. */
export type Rgb = readonly [r: number, g: number, b: number];

const TO_LINEAR = Float32Array.from({ length: 256 }, (_, level) => {
  const v = level / 255;
  return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
});

/** Returns the linear light of an 8-bit sRGB level (IEC 61966-2-1). */
export function linear(level: number): number {
  return TO_LINEAR[Math.min(255, Math.max(0, Math.round(level)))] as number;
}

/** Returns the sRGB level, 0–255 and not rounded, of linear light. */
export function level(light: number): number {
  const v = Math.min(1, Math.max(0, light));
  return 255 * (v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055);
}

/** Returns the colour of a hexadecimal sRGB triple, such as `#a0b1c2`. */
export function hex(code: string): Rgb {
  const value = Number.parseInt(code.slice(1), 16);
  return [linear(value >> 16), linear((value >> 8) & 255), linear(value & 255)];
}

export const luminance = (c: ArrayLike<number>): number =>
  0.2126 * (c[0] as number) + 0.7152 * (c[1] as number) + 0.0722 * (c[2] as number);

export const tint = (c: Rgb, by: number | Rgb): Rgb =>
  typeof by === 'number' ? [c[0] * by, c[1] * by, c[2] * by] : [c[0] * by[0], c[1] * by[1], c[2] * by[2]];

export const blend = (a: Rgb, b: Rgb, t: number): Rgb => [
  a[0] + (b[0] - a[0]) * t,
  a[1] + (b[1] - a[1]) * t,
  a[2] + (b[2] - a[2]) * t,
];

/** Returns L*, a*, b* of linear light (CIE 1976, D65). */
export function lab(c: ArrayLike<number>): [number, number, number] {
  const [r, g, b] = [c[0] as number, c[1] as number, c[2] as number];
  const f = (t: number): number => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
  const y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
  const z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}
