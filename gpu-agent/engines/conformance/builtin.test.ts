import { engineSource } from '../registry.ts';
import { headAndFace, headAndWords, portraitAlone, portraitAndHead } from './heads.ts';
import { portraits } from './portraits.ts';
import { hosted } from './subject.ts';
import { engineConformance } from './vitest.ts';
import { walkers } from './walkers.ts';

/** The machine that runs the tests may stand still for a moment. */
const cancelMs = 5_000;

engineConformance({
  title: 'the builtin engine',
  start: hosted(engineSource('builtin')),
  works: [
    { capability: 'face-swap-image', samples: portraits, cancelMs },
    { capability: 'face-swap', samples: headAndFace, cancelMs },
    { capability: 'lip-sync', samples: headAndWords, cancelMs },
    { capability: 'motion-control', samples: portraitAndHead, cancelMs },
    { capability: 'avatar', samples: portraitAlone, parameters: { script: 'Big map.' }, cancelMs },
    { capability: 'character-swap', samples: walkers, cancelMs },
  ],
});
