import { RenderError } from '@semblance/engine-api/engine';
import type { Hint } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import { SUITABLE_SHARE } from '@semblance/vision/face-finder';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { readBase, readFace } from '@semblance/vision/image/picture-file';
import { faceCounts, withBystanders } from '../findings/face-counts.ts';
import {
  faceHints,
  hintsOfLeft,
  type Input,
  keptFeatures,
  LOOKED_AT,
  severalFaces,
  sourceHints,
} from '../findings/hints.ts';
import { boxOf, overlap } from '../people/box.ts';
import { facesOf } from '../people/find-people.ts';
import { inputOf, type MappingWork, mappedFaces, pathOf, rolesOf } from '../people/mapping.ts';
import type { ShownFeatures } from '../swap/shown-features.ts';
import { drawnWidth } from '../swap/small-face.ts';
import { prepareSource, type SourceFace } from '../swap/source-face.ts';
import { swapFace } from '../swap/swap-face.ts';
import { type BaseName, type BaseSource, IMAGE, type Steps, type Swapped, type SwapTools } from './steps.ts';

/** Share of the smaller box from which a face is the one that was found there before. */
const SAME_PLACE = 0.5;

/** A face of the base, and what becomes of it. */
export interface Target {
  readonly face: Face;
  /** Id of the person in the mapping; undefined: nobody of it. */
  readonly id: string | undefined;
  /** Role of the picture whose face is put on it; undefined: it stays as it is. */
  readonly role: string | undefined;
}

export interface MappedSwap {
  readonly image: BaseSource;
  readonly mapping: MappingWork;
  /** Default: the base image of a job. */
  readonly name?: BaseName;
  /** Returns what becomes of each face. Default: people are known by their place. */
  readonly targetsOf?: (base: Picture) => Promise<readonly Target[]>;
}

/** Gives each face of the base the face that a mapping says. @throws RenderError as a swap of one face */
export async function swapMapped(
  { image, mapping, name = IMAGE, targetsOf }: MappedSwap,
  tools: SwapTools,
  { checkpoint, lap, progress, draw }: Steps,
): Promise<Swapped> {
  const base = typeof image === 'string' ? await readBase(image) : image;
  lap('decode', 0.15, 'detect');
  const targets = targetsOf
    ? await targetsOf(base.picture)
    : targetsIn(await facesOf(tools.finder, base.picture, checkpoint), base.picture, mapping);
  const changed = targets.filter(({ role }) => role !== undefined);
  lap('detect', 0.3, 'swap');
  const hints: Hint[] = [];
  const sources = new Map<string, SourceFace>();
  const times: Record<string, number> = {};
  const start = performance.now();
  for (const role of rolesOf(mapping)) {
    const widths = changed.filter((target) => target.role === role).map(({ face }) => drawnWidth(face.width));
    const read = await readSource(
      pathOf(mapping, role),
      inputOf(role),
      Math.max(...(widths.length > 0 ? widths : [LOOKED_AT])),
      tools,
      checkpoint,
    );
    sources.set(role, read.source);
    hints.push(...read.hints);
  }
  times.source = performance.now() - start;
  if (changed.length === 0) throw nobody(targets.length, hints, name);
  const taken: ShownFeatures[] = [];
  for (const [index, { face, role }] of changed.entries()) {
    checkpoint();
    const cover = await tools.finder.coverOf(cropsOf(base.picture), face, true);
    taken.push(
      swapFace(base.picture, face, sources.get(role as string) as SourceFace, { cover, times, draw }),
    );
    progress(0.4 + (0.4 * (index + 1)) / changed.length, 'swap');
  }
  const frames = new Map(changed.flatMap(({ id }) => (id === undefined ? [] : [[id, 1] as const])));
  return {
    base,
    faces: changed.length,
    times,
    findings: {
      faces: faceCounts(changed.length, withBystanders([], targets.length - changed.length)),
      hints: [...hints, ...keptFeatures(taken)],
      mapped: mappedFaces(mapping, frames),
    },
  };
}

/** Returns what becomes of each face. Who has no entry is treated as in a swap of one face. */
function targetsIn(faces: readonly Face[], picture: Picture, { people, others }: MappingWork): Target[] {
  const widest = Math.max(0, ...faces.map(({ width }) => width));
  const free = new Set(people);
  return faces.map((face) => {
    const box = boxOf(face, picture);
    const person = [...free].sort((a, b) => overlap(b.box, box) - overlap(a.box, box)).at(0);
    const known = person && overlap(person.box, box) >= SAME_PLACE ? person : undefined;
    if (known) free.delete(known);
    if (known?.input !== undefined) return { face, id: known.id, role: known.input };
    const suitable = face.width >= SUITABLE_SHARE * widest;
    return { face, id: known?.id, role: suitable ? others : undefined };
  });
}

async function readSource(
  path: string,
  input: Input,
  widest: number,
  { finder, settings }: SwapTools,
  checkpoint: () => void,
): Promise<{ readonly source: SourceFace; readonly hints: readonly Hint[] }> {
  checkpoint();
  const picture = await readFace(path);
  const { faces, left } = await finder.look(picture, checkpoint);
  const [face] = faces;
  if (!face) {
    const message = `No face was found in the ${input.name} (${input.role === 'face' ? 'face_key' : 'faces'}).`;
    throw new RenderError('face_not_detected', message, { findings: { hints: hintsOfLeft(left, input) } });
  }
  const cover = await finder.coverOf(cropsOf(picture), face);
  const source = prepareSource(picture, face, widest, { ...settings, cover });
  return {
    source,
    hints: [
      ...severalFaces(faces.length, input),
      ...faceHints(face, input, cropsOf(picture)),
      ...sourceHints(source, input),
    ],
  };
}

function nobody(found: number, hints: readonly Hint[], { name, field }: BaseName): RenderError {
  const findings = { faces: faceCounts(0, withBystanders([], found)), hints };
  const message = `Nobody of faces was found in the ${name} (${field}).`;
  return new RenderError('face_not_detected', message, { findings });
}
