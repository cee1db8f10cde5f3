import { blur, type Plane, plane } from './plane/plane.ts';

type Colours = readonly [Plane, Plane, Plane];

/**
 * How `source` depends on colour around each pixel: source = slopes · colour + offset, by least squares. Found on small
 * planes, it says where the edges of `source` run on a larger picture, too (guided filter; He et al. 2010, section 3.5).
 * @param colours red, green and blue
 * @param radius how far around each pixel, as a Gaussian's sigma
 * @param noise variance of a colour that is taken for none
 */
export function colourPlane(
  colours: Colours,
  source: Plane,
  radius: number,
  noise: number,
): { slopes: Colours; offset: Plane } {
  const { width, height } = source;
  const meanOfProduct = (a: Plane, b: Plane): Float32Array => {
    const out = plane(width, height);
    for (let i = 0; i < out.data.length; i++) out.data[i] = (a.data[i] as number) * (b.data[i] as number);
    return blur(out, radius).data;
  };
  const [r, g, b] = colours;
  const means = colours.map((channel) => blur(channel, radius).data) as [
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  const mean = blur(source, radius).data;
  const products = [
    [r, r],
    [r, g],
    [r, b],
    [g, g],
    [g, b],
    [b, b],
    [r, source],
    [g, source],
    [b, source],
  ].map(([first, second]) => meanOfProduct(first as Plane, second as Plane));
  const slopes = [plane(width, height), plane(width, height), plane(width, height)] as const;
  const offset = plane(width, height);
  for (let i = 0; i < mean.length; i++) {
    const [mr, mg, mb] = [means[0][i] as number, means[1][i] as number, means[2][i] as number];
    const s = mean[i] as number;
    const product = (k: number): number => (products[k] as Float32Array)[i] as number;
    const rr = product(0) - mr * mr + noise;
    const rg = product(1) - mr * mg;
    const rb = product(2) - mr * mb;
    const gg = product(3) - mg * mg + noise;
    const gb = product(4) - mg * mb;
    const bb = product(5) - mb * mb + noise;
    const [x, y, z] = [product(6) - mr * s, product(7) - mg * s, product(8) - mb * s];
    // The symmetric matrix's inverse by its cofactors.
    const c00 = gg * bb - gb * gb;
    const c01 = rb * gb - rg * bb;
    const c02 = rg * gb - rb * gg;
    const scale = 1 / (rr * c00 + rg * c01 + rb * c02);
    const sr = scale * (c00 * x + c01 * y + c02 * z);
    const sg = scale * (c01 * x + (rr * bb - rb * rb) * y + (rg * rb - rr * gb) * z);
    const sb = scale * (c02 * x + (rg * rb - rr * gb) * y + (rr * gg - rg * rg) * z);
    slopes[0].data[i] = sr;
    slopes[1].data[i] = sg;
    slopes[2].data[i] = sb;
    offset.data[i] = s - sr * mr - sg * mg - sb * mb;
  }
  return {
    slopes: [blur(slopes[0], radius), blur(slopes[1], radius), blur(slopes[2], radius)],
    offset: blur(offset, radius),
  };
}
