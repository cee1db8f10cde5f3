/**
 * Keeps onnxruntime to itself. From 1.29 on its official builds for Linux send Microsoft what models are loaded, when and
 * on what machine, and keep a number of the machine in the home folder, unless this variable is set when the library is
 * loaded. Set for the whole process only when imported in its main thread: the environment of a worker is a copy, which
 * the library does not see.
 */
export const NO_TELEMETRY = { ORT_DISABLE_TELEMETRY: '1' } as const;

Object.assign(process.env, NO_TELEMETRY);
