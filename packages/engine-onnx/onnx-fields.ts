import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

/** The file is no ONNX model, or is truncated. */
export class OnnxFileError extends Error {
  override readonly name = 'OnnxFileError';
}

const MAX_NAME = 4096;

/** A field of a message, and the position of its value in the file. */
export interface Field {
  readonly number: number;
  readonly wire: number;
  /** Value of a varint. */
  readonly value: bigint;
  /** Position of bytes, a text or a message in the file. */
  readonly start: number;
  readonly end: number;
}

/**
 * Yields the fields of a message in order, without their values.
 * @throws OnnxFileError
 */
export function* fields(file: FileBytes, start: number, end: number, what: string): Generator<Field> {
  let at = start;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= end) throw new OnnxFileError(`ends inside ${what}`);
      const byte = file.byte(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return BigInt.asIntN(64, value);
    }
    throw new OnnxFileError(`is damaged: ${what} has a number of more than ten bytes`);
  };
  while (at < end) {
    const tag = varint();
    const number = Number(tag >> 3n);
    const wire = Number(tag & 7n);
    let value = 0n;
    let length = 0;
    if (wire === 0) value = varint();
    else if (wire === 1) length = 8;
    else if (wire === 2) length = Number(varint());
    else if (wire === 5) length = 4;
    else throw new OnnxFileError(`is no ONNX model: ${what} is not protobuf`);
    if (length < 0 || number < 1) throw new OnnxFileError(`is no ONNX model: ${what} is not protobuf`);
    if (at + length > end) {
      const missing = at + length - end;
      throw new OnnxFileError(`is cut off or damaged: ${missing} bytes of ${what} are missing`);
    }
    yield { number, wire, value, start: at, end: at + length };
    at += length;
  }
}

/** Returns repeated integers, packed or not. */
export function integers(file: FileBytes, field: Field): number[] {
  if (field.wire === 0) return [Number(field.value)];
  const values: number[] = [];
  let value = 0;
  let factor = 1;
  for (const byte of file.read(field.start, Math.min(field.end, field.start + MAX_NAME))) {
    value += (byte & 0x7f) * factor;
    factor *= 128;
    if (byte >= 0x80) continue;
    values.push(value);
    value = 0;
    factor = 1;
  }
  return values;
}

/** Returns a name, or the start of a very long one. */
export function text(file: FileBytes, field: Field): string {
  return Buffer.from(file.read(field.start, Math.min(field.end, field.start + MAX_NAME))).toString('utf8');
}

/** Reads anywhere in a file through a small window. */
export class FileBytes {
  readonly size: number;
  readonly #file: number;
  readonly #window = Buffer.alloc(4096);
  #start = 0;
  #length = 0;

  constructor(path: string) {
    this.#file = openSync(path, 'r');
    this.size = fstatSync(this.#file).size;
  }

  byte(at: number): number {
    if (at < this.#start || at >= this.#start + this.#length) {
      this.#start = at;
      this.#length = readSync(this.#file, this.#window, 0, this.#window.length, at);
    }
    const byte = this.#window[at - this.#start];
    if (byte === undefined || at >= this.#start + this.#length)
      throw new OnnxFileError('was cut off while it was read');
    return byte;
  }

  read(start: number, end: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(end - start);
    let done = 0;
    while (done < bytes.length) {
      const count = readSync(this.#file, bytes, done, bytes.length - done, start + done);
      if (count === 0) throw new OnnxFileError('was cut off while it was read');
      done += count;
    }
    return bytes;
  }

  close(): void {
    closeSync(this.#file);
  }
}
