import type { Capability } from '@semblance/engine-api/capabilities';

const NEWSCODES = 'http://cv.iptc.org/newscodes/digitalsourcetype/';
/** Media of a person or a camera, a part of which a trained model made. */
export const EDITED = `${NEWSCODES}compositeWithTrainedAlgorithmicMedia`;
/** Media made entirely by an algorithm that was trained on recorded media. */
export const GENERATED = `${NEWSCODES}trainedAlgorithmicMedia`;

/** Role of an input: the output is the edited input, contains it, or was generated from it. */
export type Part = 'parentOf' | 'componentOf' | 'inputTo';

export interface Origin {
  /** IPTC NewsCode of the output. */
  readonly digitalSourceType: string;
  /** C2PA action that opens the history: an existing file was edited, or a new one was created. */
  readonly action: 'c2pa.edited' | 'c2pa.created';
  readonly parts: Readonly<Record<string, Part>>;
}

/** Origin of the output of each capability; docs/guide/owner/provenance.md gives the reasons. */
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
