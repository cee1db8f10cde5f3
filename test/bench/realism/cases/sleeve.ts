import { pick, seeded } from '@semblance/testkit/sound/random';
import { smoothstep } from '@semblance/vision/plane/plane';
import { hex, type Rgb, tint } from './colour.ts';
import type { Scene } from './composite.ts';
import { add, dot, scale, sub, type Vec } from './head-frame.ts';
import { noise, rough } from './noise.ts';
import type { Solid } from './sdf.ts';

/** Returns a sleeve of cloth around a forearm, a little above the wrist. */
export function sleeve(scene: Scene, arm: { wrist: Vec; along: Vec; size: number }): Solid {
  const { along, size } = arm;
  const cuff = add(arm.wrist, scale(along, 0.22 * size));
  const radius = 0.185 * size;
  const cloth = sleeveColour(scene);
  const { seed, light } = scene;
  return {
    centre: add(cuff, scale(along, 1.1 * size)),
    radius: 1.4 * size,
    distance: (x, y, z) => {
      const d = sub([x, y, z], cuff);
      const t = dot(d, along);
      const bare = Math.hypot(...sub(d, scale(along, t))) - radius - 0.06 * Math.max(0, t);
      if (bare > 0.1 || t < -0.1) return 0.7 * Math.max(bare - 0.03, -t);
      const wrinkle = 0.02 * size * noise(t * 5, x * 4 + z * 3, y, seed + 5) * smoothstep(0, 0.25, t);
      return 0.7 * Math.max(bare - wrinkle, -t, t - 2.4 * size);
    },
    colour: ({ at, normal, open }) => {
      const weave = 1 + 0.06 * rough(at[0] * 90, at[1] * 90, at[2] * 90, seed);
      return tint(tint(cloth, light.on(normal)), (0.35 + 0.65 * open) * weave);
    },
  };
}

function sleeveColour({ light, seed }: Scene): Rgb {
  const codes = ['#23262e', '#1d2b45', '#4a4d52', '#dfe3e8', '#5b2330', '#6d7f95', '#3c4a3a', '#c9b79c'];
  return tint(hex(pick(seeded(seed ^ 0xa3), codes)), light.white);
}
