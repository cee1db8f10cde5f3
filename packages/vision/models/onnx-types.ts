/** Element types of graph inputs and outputs, numbered as in TensorProto.DataType of onnx.proto. */
export const ONNX_TYPES = { float32: 1, uint8: 2, int32: 6, int64: 7, float16: 10, float64: 11 } as const;
export type OnnxType = keyof typeof ONNX_TYPES;
