import type { Capability } from '@semblance/engine-api/capabilities';

const NEWSCODES = 'http://cv.iptc.org/newscodes/digitalsourcetype/';
/** Media of a person or a camera in which a part was made by a trained model. */
export const EDITED = `${NEWSCODES}compositeWithTrainedAlgorithmicMedia`;
/** Media made as a whole by an algorithm that was trained on recorded media. */
export const GENERATED = `${NEWSCODES}trainedAlgorithmicMedia`;

/** How an input took part: the output is that file, edited; it was put into it; or the output was made from it. */
export type Part = 'parentOf' | 'componentOf' | 'inputTo';

export interface Origin {
  /** IPTC NewsCode of the output. */
  readonly digitalSourceType: string;
  /** C2PA action that opens the history: what was there was edited, or nothing was and it was made. */
  readonly action: 'c2pa.edited' | 'c2pa.created';
  readonly parts: Readonly<Record<string, Part>>;
}

/** States where the output of each capability comes from; docs/guide/owner/provenance.md says why. */
export const ORIGINS: Readonly<Partial<Record<Capability, Origin>>> = {
  'face-swap-image': edited({ image: 'parentOf', face: 'componentOf' }),
  'face-swap': edited({ video: 'parentOf', face: 'componentOf' }),
  'character-swap': edited({ video: 'parentOf', character: 'componentOf' }),
  'lip-sync': edited({ video: 'parentOf', audio: 'componentOf' }),
  'motion-control': generated({ image: 'inputTo', motion_video: 'inputTo' }),
  avatar: generated({ image: 'inputTo' }),
};

function edited(parts: Origin['parts']): Origin {
  return { digitalSourceType: EDITED, action: 'c2pa.edited', parts };
}

function generated(parts: Origin['parts']): Origin {
  return { digitalSourceType: GENERATED, action: 'c2pa.created', parts };
}
