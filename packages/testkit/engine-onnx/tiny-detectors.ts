import type { FoundFace } from '@semblance/engine-onnx/internal/stages/detector';
import { GraphBuilder } from './graph.ts';

/** Face that a detector reports, in pixels of its input. */
export type GivenFace = FoundFace;

const STRIDES = [8, 16, 32];

/**
 * Creates `scrfd_2.5g` and `retinaface_10g` models that always report the same faces.
 * @param options.size side of the input for which they do
 * @param options.declared side of the input for which the file declares its outputs
 * @param options.batch whether outputs keep the first size
 */
export function tinyAnchored(
  faces: readonly GivenFace[],
  options: { size?: number; batch?: boolean; input?: (number | string)[]; declared?: number } = {},
) {
  const { size = 640, batch = false, declared = size } = options;
  const graph = new GraphBuilder();
  const input = graph.input('input.1', options.input ?? [1, 3, '?', '?']);
  const side = graph.op('Gather', [graph.op('Shape', [input]), graph.integers([2])]);
  const widths = { score: 1, box: 4, points: 10 };
  for (const kind of ['score', 'box', 'points'] as const) {
    for (const stride of STRIDES) {
      const across = size / stride;
      const count = 2 * across * across;
      const data = new Float32Array(count * widths[kind]);
      for (const [n, face] of faces.entries()) {
        if (STRIDES[n % 3] !== stride) continue;
        const column = Math.min(across - 1, Math.max(0, Math.round((face.x + face.width / 2) / stride)));
        const row = Math.min(across - 1, Math.max(0, Math.round((face.y + face.height / 2) / stride)));
        const ax = column * stride;
        const ay = row * stride;
        const index = (row * across + column) * 2 + (n % 2);
        if (kind === 'score') data[index] = face.score;
        else if (kind === 'box') {
          const sides = [ax - face.x, ay - face.y, face.x + face.width - ax, face.y + face.height - ay];
          data.set(
            sides.map((side) => side / stride),
            index * 4,
          );
        } else {
          const points = face.five.flatMap(({ x, y }) => [(x - ax) / stride, (y - ay) / stride]);
          data.set(points, index * 10);
        }
      }
      const shape = (many: number) => (batch ? [1, many, widths[kind]] : [many, widths[kind]]);
      const values = graph.weight(data, shape(count));
      if (declared === size) {
        graph.output(values, `${kind}${stride}`, shape(count));
        continue;
      }
      // As in InsightFace's files, only a run shows how many there are: as many as fit the input.
      const columns = graph.op('Div', [side, graph.integers([stride])]);
      const fitting = graph.op('Mul', [graph.op('Mul', [columns, columns]), graph.integers([2])]);
      const axis = graph.integers([batch ? 1 : 0]);
      const cut = graph.op('Slice', [values, graph.integers([0]), fitting, axis]);
      graph.output(cut, `${kind}${stride}`, shape(2 * (declared / stride) ** 2));
    }
  }
  return graph.build();
}

/** Creates a `yoloface_8n` model that always reports the same faces. */
export function tinyYoloface(faces: readonly GivenFace[], size = 640) {
  const graph = new GraphBuilder();
  graph.input('images', [1, 3, size, size]);
  const count = STRIDES.reduce((sum, stride) => sum + (size / stride) ** 2, 0);
  const data = new Float32Array(20 * count);
  for (const [n, face] of faces.entries()) {
    const column = 100 + n * 37;
    const values = [
      face.x + face.width / 2,
      face.y + face.height / 2,
      face.width,
      face.height,
      face.score,
      ...face.five.flatMap(({ x, y }) => [x, y, 0.9]),
    ];
    for (const [row, value] of values.entries()) data[row * count + column] = value;
  }
  graph.output(graph.weight(data, [1, 20, count]), 'output0', [1, 20, count]);
  return graph.build();
}

/** Creates a `yunet_2023_mar` model that always reports the same faces. */
export function tinyYunet(faces: readonly GivenFace[], size = 640) {
  const graph = new GraphBuilder();
  graph.input('input', [1, 3, size, size]);
  const widths = { cls: 1, obj: 1, bbox: 4, kps: 10 };
  for (const kind of ['cls', 'obj', 'bbox', 'kps'] as const) {
    for (const stride of STRIDES) {
      const across = size / stride;
      const data = new Float32Array(across * across * widths[kind]);
      for (const [n, face] of faces.entries()) {
        if (STRIDES[n % 3] !== stride) continue;
        const cx = face.x + face.width / 2;
        const cy = face.y + face.height / 2;
        const column = Math.floor(cx / stride);
        const row = Math.floor(cy / stride);
        const index = row * across + column;
        if (kind === 'cls') data[index] = face.score;
        else if (kind === 'obj') data[index] = face.score;
        else if (kind === 'bbox') {
          const box = [
            cx / stride - column,
            cy / stride - row,
            Math.log(face.width / stride),
            Math.log(face.height / stride),
          ];
          data.set(box, index * 4);
        } else {
          data.set(
            face.five.flatMap(({ x, y }) => [x / stride - column, y / stride - row]),
            index * 10,
          );
        }
      }
      const dims = [1, across * across, widths[kind]];
      graph.output(graph.weight(data, dims), `${kind}_${stride}`, dims);
    }
  }
  return graph.build();
}
