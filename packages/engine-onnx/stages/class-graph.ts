import { FLOAT, graphOf, node, output, tensor, withGraph } from '../onnx-edit.ts';
import { FileBytes, fields, OnnxFileError, text } from '../onnx-fields.ts';

/** Classes of the networks that parse faces (CelebAMask-HQ). */
export const PARSER_CLASSES = 19;
/** Name of the output that {@link classGraph} adds: [N, 1, height, width], float32. */
export const CLASSES = 'semblance_classes';

/**
 * Returns a network that classifies pixels as it is loaded; its file stays as it is. It has one more output: the number
 * of each pixel's class, the first of equal ones, or NaN where a value of the pixel is not finite. So the device
 * compares the classes, and gives one number for each pixel instead of one for each class.
 * @param classes number of channels of the first output, [N, classes, height, width]
 * @throws OnnxFileError
 */
export function classGraph(path: string, classes: number): Uint8Array {
  const file = new FileBytes(path);
  try {
    const graph = graphOf(file);
    let values: string | undefined;
    for (const field of fields(file, graph.start, graph.end, 'the graph')) {
      if (field.number !== 12 || values !== undefined) continue;
      for (const part of fields(file, field.start, field.end, 'a value'))
        if (part.number === 1) values = text(file, part);
    }
    if (values === undefined) throw new OnnxFileError('has no output');
    const named = (what: string): string => `${CLASSES}/${what}`;
    // A sum of values, each times 0, is 0 or NaN; a convolution is the same in all versions of ONNX.
    const zeros = new Uint8Array(4 * classes);
    return withGraph(file, graph, [
      file.read(graph.start, graph.end),
      tensor(named('zeros'), FLOAT, [1, classes, 1, 1], zeros),
      node('Cast', [values], named('values'), { to: FLOAT }),
      node('ArgMax', [named('values')], named('whole'), { axis: 1, keepdims: 1 }),
      node('Cast', [named('whole')], named('class'), { to: FLOAT }),
      node('Conv', [named('values'), named('zeros')], named('fault')),
      node('Add', [named('class'), named('fault')], CLASSES),
      output(CLASSES),
    ]);
  } finally {
    file.close();
  }
}
