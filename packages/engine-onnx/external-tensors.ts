import { type Field, type FileBytes, fields, OnnxFileError, text } from './onnx-fields.ts';

/** `TensorProto.DataLocation.EXTERNAL` */
const EXTERNAL = 1n;
/** Largest depth of nested graphs; protobuf's own limit is lower. */
const DEEPEST = 32;

/**
 * Returns the tensors of a model whose data are in another file, each with its owner. They may be anywhere:
 * initializers, including sparse ones, attributes of nodes (such as `Constant`), and the same in the graphs of
 * attributes, in functions and in training graphs.
 * @throws OnnxFileError
 */
export function externalTensors(file: FileBytes): string[] {
  const found: string[] = [];
  const messages = (start: number, end: number, what: string): Field[] =>
    [...fields(file, start, end, what)].filter(({ wire }) => wire === 2);

  const tensor = ({ start, end }: Field, owner: string): void => {
    let name = '';
    let external = false;
    for (const field of fields(file, start, end, 'a tensor')) {
      if (field.number === 8) name = text(file, field);
      // Readers keep only 32 bits of it.
      else if (field.number === 14) external = BigInt.asIntN(32, field.value) === EXTERNAL;
    }
    if (external) found.push([owner, name].filter(Boolean).join(' '));
  };
  /** A sparse tensor has values and indices. */
  const sparse = ({ start, end }: Field, owner: string): void => {
    for (const field of messages(start, end, 'a sparse tensor')) if (field.number < 3) tensor(field, owner);
  };
  const attribute = ({ start, end }: Field, owner: string, depth: number): void => {
    for (const field of messages(start, end, 'an attribute')) {
      if (field.number === 5 || field.number === 10) tensor(field, owner);
      else if (field.number === 22 || field.number === 23) sparse(field, owner);
      else if (field.number === 6 || field.number === 11) graph(field, depth + 1);
    }
  };
  const node = ({ start, end }: Field, depth: number): void => {
    const parts = messages(start, end, 'a node');
    const named = (number: number): string => {
      const field = parts.find((part) => part.number === number);
      return field ? text(file, field) : '';
    };
    const attributes = parts.filter(({ number }) => number === 5);
    if (attributes.length === 0) return;
    const owner = `attribute of ${named(4)} ${named(3) || named(2)}`;
    for (const each of attributes) attribute(each, owner, depth);
  };
  const graph = ({ start, end }: Field, depth: number): void => {
    if (depth > DEEPEST) throw new OnnxFileError(`is damaged: its graphs lie ${depth} deep in each other`);
    for (const field of fields(file, start, end, 'a graph')) {
      if (field.wire !== 2) continue;
      if (field.number === 1) node(field, depth);
      else if (field.number === 5) tensor(field, 'initializer');
      else if (field.number === 15) sparse(field, 'initializer');
    }
  };

  for (const part of messages(0, file.size, 'the model')) {
    if (part.number === 7) graph(part, 0);
    else if (part.number === 20) {
      for (const field of messages(part.start, part.end, 'a training')) if (field.number < 3) graph(field, 0);
    } else if (part.number === 25) {
      for (const field of messages(part.start, part.end, 'a function')) {
        if (field.number === 7) node(field, 0);
        else if (field.number === 11) attribute(field, 'default of a function', 0);
      }
    }
  }
  return found;
}
