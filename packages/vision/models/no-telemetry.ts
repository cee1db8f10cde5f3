/**
 * Turns the telemetry of onnxruntime off. From 1.29 on, its official Linux builds report to Microsoft which models
 * are loaded, when and on what machine, and keep a machine number in the home folder, unless this variable is set
 * when the library is loaded. Import this module in the main thread: a worker has a copy of the environment that
 * the library does not see.
 */
export const NO_TELEMETRY = { ORT_DISABLE_TELEMETRY: '1' } as const;

Object.assign(process.env, NO_TELEMETRY);
