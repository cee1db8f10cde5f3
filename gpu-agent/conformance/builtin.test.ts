import {
  headAndFace,
  headAndWords,
  portraitAlone,
  portraitAndHead,
} from '@semblance/testkit/conformance/heads';
import { hosted } from '@semblance/testkit/conformance/subjects';
import { engineConformance } from '@semblance/testkit/conformance/vitest';
import { walkers } from '@semblance/testkit/conformance/walkers';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import { engineSource } from '../engines/registry.ts';

/** Time for a cancelled render to end, in ms: the test machine may stand still. */
const cancelMs = 5_000;
const video = ['ffmpeg'];

engineConformance({
  title: 'the builtin engine',
  start: hosted(engineSource('builtin')),
  works: [
    { capability: 'face-swap-image', samples: portraits, cancelMs },
    { capability: 'face-swap', samples: headAndFace, cancelMs, tags: video },
    { capability: 'lip-sync', samples: headAndWords, cancelMs, tags: [...video, 'speech'] },
    { capability: 'motion-control', samples: portraitAndHead, cancelMs, tags: video },
    {
      capability: 'avatar',
      samples: portraitAlone,
      parameters: { script: 'Big map.' },
      cancelMs,
      tags: [...video, 'speech'],
    },
    { capability: 'character-swap', samples: walkers, cancelMs, tags: video },
  ],
});
