import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { GraphBuilder } from '@semblance/testkit/engine-onnx/graph';
import { ModelDirRig } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import { afterAll, expect, it } from 'vitest';
import { OnnxFileError } from './onnx-fields.ts';
import { readOnnxSummary } from './onnx-file.ts';

const rig = new ModelDirRig();
afterAll(() => rig.close());

async function external(bytes: Uint8Array): Promise<readonly string[]> {
  const path = join(await rig.directory(), 'model.onnx');
  await writeFile(path, bytes);
  return readOnnxSummary(path).external;
}

type Part = readonly [field: number, value: Uint8Array | string | number | readonly Part[]];

/** Encodes a protobuf message, field by field. */
function message(...parts: readonly Part[]): Uint8Array<ArrayBuffer> {
  const writer = new BinaryWriter();
  for (const [field, value] of parts) {
    if (typeof value === 'number') writer.tag(field, WireType.Varint).int64(value);
    else if (typeof value === 'string') writer.tag(field, WireType.LengthDelimited).string(value);
    else
      writer
        .tag(field, WireType.LengthDelimited)
        .bytes(value instanceof Uint8Array ? value : message(...value));
  }
  return writer.finish() as Uint8Array<ArrayBuffer>;
}

/** Returns a tensor of two numbers that are in `w.data`, or in the model itself. */
function tensor(outside: boolean, name = ''): readonly Part[] {
  const where: Part[] = outside
    ? [
        [
          13,
          [
            [1, 'location'],
            [2, 'w.data'],
          ],
        ],
        [14, 1],
      ]
    : [[9, new Uint8Array(8)]];
  return [[1, 2], [2, 1], ...(name ? [[8, name] as Part] : []), ...where];
}

const node = (...attribute: readonly Part[]): Part => [
  1,
  [
    [2, 'out'],
    [4, 'Constant'],
    [5, attribute],
  ],
];

const PLACES: readonly (readonly [string, string, (outside: boolean) => Part])[] = [
  ['an initializer', 'initializer w', (outside) => [7, [[5, tensor(outside, 'w')]]]],
  [
    'a sparse initializer',
    'initializer w',
    (outside) => [
      7,
      [
        [
          15,
          [
            [1, tensor(outside, 'w')],
            [2, tensor(false)],
          ],
        ],
      ],
    ],
  ],
  [
    'indices',
    'initializer',
    (outside) => [
      7,
      [
        [
          15,
          [
            [1, tensor(false, 'w')],
            [2, tensor(outside)],
          ],
        ],
      ],
    ],
  ],
  ['a constant', 'attribute of Constant out', (outside) => [7, [node([5, tensor(outside)])]]],
  [
    'one of many',
    'attribute of Constant out w',
    (outside) => [7, [node([10, tensor(false)], [10, tensor(outside, 'w')])]],
  ],
  ['a sparse constant', 'attribute of Constant out', (outside) => [7, [node([22, [[1, tensor(outside)]]])]]],
  [
    'one of many sparse ones',
    'attribute of Constant out',
    (outside) => [7, [node([23, [[1, tensor(outside)]]])]],
  ],
  ['a branch', 'initializer w', (outside) => [7, [node([6, [[5, tensor(outside, 'w')]]])]]],
  [
    'one of many branches',
    'attribute of Constant out',
    (outside) => [7, [node([11, [node([5, tensor(outside)])]])]],
  ],
  ['a function', 'attribute of Constant out', (outside) => [25, [[7, node([5, tensor(outside)])[1]]]]],
  [
    'a default of a function',
    'default of a function w',
    (outside) => [25, [[11, [[5, tensor(outside, 'w')]]]]],
  ],
  ['a training', 'initializer w', (outside) => [20, [[1, [[5, tensor(outside, 'w')]]]]]],
];

it.each(PLACES)('names data that lie elsewhere: of %s', async (_, name, place) => {
  const graph: Part = [7, [[2, 'graph']]];
  const model = (outside: boolean) => {
    const part = place(outside);
    return message([1, 8], ...(part[0] === 7 ? [part] : [graph, part]));
  };
  expect(await external(model(true))).toEqual([name]);
  expect(await external(model(false))).toEqual([]);
});

it('names them in a graph that another program wrote, beside those that lie inside', async () => {
  const graph = new GraphBuilder();
  const outside = { name: 'w', dims: [1], data: new Float32Array(1), location: '../../etc/passwd' };
  const sum = graph.op('Mul', [graph.input('x', [1]), graph.tensor(outside)], { axis: 1 });
  graph.output(graph.op('Add', [sum, graph.weight([1], [1])]), 'y', [1]);
  expect(await external(graph.build())).toEqual(['initializer w']);
  expect(await external(tinySwapper())).toEqual([]);
});

it('refuses graphs in graphs without end', async () => {
  let inner: Part = node([5, tensor(true)]);
  for (let i = 0; i < 30; i++) inner = node([6, [inner]]);
  expect(await external(message([7, [inner]]))).toHaveLength(1);
  for (let i = 0; i < 30; i++) inner = node([6, [inner]]);
  await expect(external(message([7, [inner]]))).rejects.toThrow(OnnxFileError);
});
