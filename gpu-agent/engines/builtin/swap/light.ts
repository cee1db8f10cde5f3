import { blur, type Plane, plane, sample, shrinkPlane, smoothstep } from './plane.ts';

/** Light is smooth: it is compared on a grid this many times coarser than the work grid. */
const COARSENESS = 4;

/** How light differs between two faces, channel by channel, on a coarse grid. */
export interface LightField {
  /** Ratio of local means. */
  readonly gains: readonly [Plane, Plane, Plane];
  /** Local means of what will be put there, before it is lit anew. */
  readonly means: readonly [Plane, Plane, Plane];
  readonly relief: number;
  /** Work pixels per pixel of the grid. */
  readonly coarseness: number;
}

export interface LightInputs {
  /** Red, green and blue of what is there, and of what will be put there, on the work grid. */
  readonly own: readonly [Plane, Plane, Plane];
  readonly other: readonly [Plane, Plane, Plane];
  /** How much each pixel tells about the light: 1 on skin that both show, 0 elsewhere. */
  readonly weight: Plane;
  /** 1 near the edge of the replaced area, where the match must be close, to 0 well inside. */
  readonly edge: Plane;
  readonly faceWidth: number;
  /** Relative strength of the relief that was there to that of the relief that will be put there. */
  readonly relief: number;
}

/** Widths of the surroundings as shares of the face's: brightness within the face, its colour, both at the edge. */
const BROAD = 0.17;
const COLOUR = 0.07;
const NARROW = 0.045;
const GAIN_LIMIT = 3;

/**
 * Compares the light on two faces: the ratio of their weighted local means. Brightness is compared over broad
 * surroundings inside the face (so that the new face keeps its own relief) and narrow ones at its edge (so that no
 * seam shows); colour over narrower ones throughout, since coloured light falls in patches. The quotient of smoothed
 * images is Liu et al.'s expression ratio image (2001) used for light; normalising by smoothed weights is Knutsson
 * and Westin's normalized convolution (1993).
 */
export function matchLight(inputs: LightInputs): LightField {
  const weight = shrinkPlane(inputs.weight, COARSENESS);
  const edge = blur(shrinkPlane(inputs.edge, COARSENESS), 1);
  const faceWidth = inputs.faceWidth / COARSENESS;
  const own = inputs.own.map((channel) => weighted(channel, inputs.weight));
  const other = inputs.other.map((channel) => weighted(channel, inputs.weight));
  const total = Math.max(sum(weight), 1e-6);
  const at = (sigma: number, prior: readonly Plane[] | undefined): { gains: Plane[]; means: Plane[] } => {
    const w = blur(weight, sigma * faceWidth);
    const gains: Plane[] = [];
    const means: Plane[] = [];
    for (let c = 0; c < 3; c++) {
      const a = blur(own[c] as Plane, sigma * faceWidth);
      const b = blur(other[c] as Plane, sigma * faceWidth);
      const overallOwn = sum(own[c] as Plane) / total;
      const overallOther = sum(other[c] as Plane) / total;
      const gain = plane(a.width, a.height);
      const mean = plane(a.width, a.height);
      for (let i = 0; i < gain.data.length; i++) {
        const known = w.data[i] as number;
        const before = prior
          ? ((prior[c] as Plane).data[i] as number)
          : (overallOwn + 3) / (overallOther + 3);
        const local = ((a.data[i] as number) + 3 * known) / ((b.data[i] as number) + 3 * known + 1e-6);
        const trust = known / (known + 0.03);
        const value = known > 1e-4 ? local * trust + before * (1 - trust) : before;
        gain.data[i] = Math.min(GAIN_LIMIT, Math.max(1 / GAIN_LIMIT, value));
        mean.data[i] = ((b.data[i] as number) + 0.01 * overallOther) / (known + 0.01);
      }
      gains.push(gain);
      means.push(mean);
    }
    return { gains, means };
  };
  const broad = at(BROAD, undefined);
  const colour = at(COLOUR, broad.gains);
  const narrow = at(NARROW, colour.gains);
  for (let i = 0; i < edge.data.length; i++) {
    const bright = brightness(broad.gains, i) / brightness(colour.gains, i);
    const mean = brightness(broad.means, i) / Math.max(1, brightness(colour.means, i));
    const e = edge.data[i] as number;
    for (let c = 0; c < 3; c++) {
      const inner = ((colour.gains[c] as Plane).data[i] as number) * bright;
      const outer = (narrow.gains[c] as Plane).data[i] as number;
      (broad.gains[c] as Plane).data[i] = inner + (outer - inner) * e;
      (broad.means[c] as Plane).data[i] = ((colour.means[c] as Plane).data[i] as number) * mean;
    }
  }
  return {
    gains: broad.gains as unknown as LightField['gains'],
    means: broad.means as unknown as LightField['means'],
    relief: inputs.relief,
    coarseness: COARSENESS,
  };
}

function brightness(channels: readonly Plane[], i: number): number {
  const [r, g, b] = channels as [Plane, Plane, Plane];
  return 0.299 * (r.data[i] as number) + 0.587 * (g.data[i] as number) + 0.114 * (b.data[i] as number);
}

/** Most that the relief of a face (pores, wrinkles, noise) is strengthened or weakened, whatever the light. */
const RELIEF_LIMITS = [0.6, 1.2] as const;

/**
 * Lights one colour of the new face as the old one was lit. Relief is laid over the new local mean nearly as it was,
 * since multiplying it would blow up noise; what is much darker than the skin around it (pupils, brows, nostrils) is
 * multiplied, since adding would make it grey.
 * @param eye 1 inside an eye, whose white and iris have a colour of their own: only the brightness changes there
 */
export function relight(field: LightField, x: number, y: number, eye: number, rgb: Float32Array): void {
  const fx = x / field.coarseness;
  const fy = y / field.coarseness;
  const g0 = sample(field.gains[0], fx, fy);
  const g1 = sample(field.gains[1], fx, fy);
  const g2 = sample(field.gains[2], fx, fy);
  const m0 = sample(field.means[0], fx, fy);
  const m1 = sample(field.means[1], fx, fy);
  const m2 = sample(field.means[2], fx, fy);
  const r = rgb[0] as number;
  const g = rgb[1] as number;
  const b = rgb[2] as number;
  const mean = 0.299 * m0 + 0.587 * m1 + 0.114 * m2 + 1;
  const gain = 0.299 * g0 + 0.587 * g1 + 0.114 * g2;
  const relief = Math.min(RELIEF_LIMITS[1], Math.max(RELIEF_LIMITS[0], gain * field.relief));
  const dark = 1 - smoothstep(0.35, 0.8, (0.299 * r + 0.587 * g + 0.114 * b) / mean);
  const even = gain ** 0.8;
  rgb[0] = lit(r, m0, g0, relief, dark, eye, even);
  rgb[1] = lit(g, m1, g1, relief, dark, eye, even);
  rgb[2] = lit(b, m2, g2, relief, dark, eye, even);
}

function lit(
  v: number,
  mean: number,
  gain: number,
  relief: number,
  dark: number,
  eye: number,
  even: number,
): number {
  const added = v * relief + mean * (gain - relief);
  const skin = added + (v * gain - added) * dark;
  const own = v * even;
  return skin + (own - skin) * 0.85 * eye;
}

function weighted(channel: Plane, weight: Plane): Plane {
  const out = plane(channel.width, channel.height);
  for (let i = 0; i < out.data.length; i++)
    out.data[i] = (channel.data[i] as number) * (weight.data[i] as number);
  return shrinkPlane(out, COARSENESS);
}

function sum(values: Plane): number {
  let total = 0;
  for (const value of values.data) total += value;
  return total;
}
