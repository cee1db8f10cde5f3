import { withMostMemory } from '@semblance/engine-builtin/internal/live-swap/jpeg-decoder';

/**
 * WebAssembly in the place of the decoder of JPEG: it does what is asked when a picture comes. It is written in bytes
 * (WebAssembly core specification, 5), because each function is a few of them.
 */
export interface Intruder {
  /** Name of an import that it calls. */
  readonly calls?: string;
  /** Name of an import that it wants, and that there is not. */
  readonly wants?: string;
  /** Address that it reads, or writes. */
  readonly load?: number;
  readonly store?: number;
  /** Whether it grows its memory as far as it can, and answers the number of pages as the width. */
  readonly grows?: boolean;
  /** Whether it never returns. */
  readonly loops?: boolean;
  /** What it answers. */
  readonly width?: number;
  readonly height?: number;
  /** Place of everything that it allocates. */
  readonly place?: number;
}

const I32 = 0x7f;
const CALL = 0x10;
const CONST = 0x41;
const END = 0x0b;
/** Imports with their numbers of parameters, and whether they answer. */
const IMPORTS: readonly (readonly [string, string, number, boolean])[] = [
  ['env', 'setjmp', 1, true],
  ['env', 'longjmp', 2, false],
  ['wasi_snapshot_preview1', 'proc_exit', 1, false],
  ['wasi_snapshot_preview1', 'environ_get', 2, true],
  ['wasi_snapshot_preview1', 'fd_close', 1, true],
  ['wasi_snapshot_preview1', 'fd_seek', 4, true],
  ['wasi_snapshot_preview1', 'fd_write', 4, true],
];
const EXPORTS: readonly (readonly [string, number])[] = [
  ['malloc', 1],
  ['tjInitDecompress', 0],
  ['tjDecompressHeader3', 7],
  ['tjDecompress2', 9],
];
/** Parameter of the function of headers with the address of the width. */
const WIDTH_AT = 3;

/** Returns the module, with the limit of memory that the decoder gets. */
export function jpegIntruder(intruder: Intruder) {
  return new (
    globalThis as unknown as { WebAssembly: { Module: new (bytes: Uint8Array) => object } }
  ).WebAssembly.Module(withMostMemory(Uint8Array.from(bytesOf(intruder)), 1_024));
}

function bytesOf(intruder: Intruder): number[] {
  const { wants, place = 65_536 } = intruder;
  const imports = [...IMPORTS, ...(wants === undefined ? [] : [['env', wants, 0, false] as const])];
  const types = [
    ...imports.map(([, , parameters, answers]) => type(parameters, answers)),
    ...EXPORTS.map(([, parameters]) => type(parameters, true)),
  ];
  const bodies = [
    constant(place),
    constant(place && 1),
    [...acts(intruder, imports), ...answer(intruder)],
    constant(0),
  ];
  return [
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, list(types)),
    ...section(2, list(imports.map(([from, name], index) => [...text(from), ...text(name), 0, ...u(index)]))),
    ...section(3, list(EXPORTS.map((_, index) => u(imports.length + index)))),
    // Room for the largest file and picture.
    ...section(5, [1, 0, ...u(200)]),
    ...section(
      7,
      list([
        [...text('memory'), 2, 0],
        ...EXPORTS.map(([name], index) => [...text(name), 0, ...u(imports.length + index)]),
      ]),
    ),
    ...section(10, list(bodies.map((body) => sized([0, ...body, END])))),
  ];
}

/** What it does when it is to read a header. */
function acts({ calls, load, store, grows, loops }: Intruder, imports: typeof IMPORTS): number[] {
  const [DROP, LOAD, STORE, GROW, LOOP, BRANCH, BRANCH_IF, VOID] = [
    0x1a, 0x28, 0x36, 0x40, 3, 0x0c, 0x0d, 0x40,
  ];
  if (calls !== undefined) {
    const index = imports.findIndex(([, name]) => name === calls);
    const [, , parameters, answers] = imports[index] as (typeof IMPORTS)[number];
    const given = Array.from({ length: parameters }, () => constant(0)).flat();
    return [...given, CALL, ...u(index), ...(answers ? [DROP] : [])];
  }
  if (load !== undefined) return [...constant(load), LOAD, 2, 0, DROP];
  if (store !== undefined) return [...constant(store), ...constant(1), STORE, 2, 0];
  // Page by page, until it gets -1.
  if (grows) return [LOOP, VOID, ...constant(1), GROW, 0, ...constant(-1), 0x47, BRANCH_IF, 0, END];
  if (loops) return [LOOP, VOID, BRANCH, 0, END];
  return [];
}

/** Writes width and height where it was told, and returns 0. */
function answer({ width = 1, height = 1, grows }: Intruder): number[] {
  const [GET, STORE, SIZE] = [0x20, 0x36, 0x3f];
  const put = (parameter: number, value: number[]) => [GET, parameter, ...value, STORE, 2, 0];
  return [
    ...put(WIDTH_AT, grows ? [SIZE, 0] : constant(width)),
    ...put(WIDTH_AT + 1, constant(height)),
    ...constant(0),
  ];
}

const type = (parameters: number, answers: boolean) => [
  ...[0x60, parameters, ...Array.from({ length: parameters }, () => I32)],
  ...(answers ? [1, I32] : [0]),
];
const constant = (value: number) => [CONST, ...signed(value | 0)];
const text = (value: string) => sized([...Buffer.from(value)]);
const list = (items: readonly number[][]) => [...u(items.length), ...items.flat()];
const sized = (bytes: readonly number[]) => [...u(bytes.length), ...bytes];
const section = (id: number, bytes: readonly number[]) => [id, ...sized(bytes)];

function u(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...u(value >>> 7)];
}

function signed(value: number): number[] {
  const rest = value >> 7;
  const low = value & 0x7f;
  const last = (rest === 0 && !(low & 0x40)) || (rest === -1 && low & 0x40);
  return last ? [low] : [low | 0x80, ...signed(rest)];
}
