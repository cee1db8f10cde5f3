/** Element types of graph inputs and outputs, as TensorProto.DataType of onnx.proto counts them. */
export const ONNX_TYPES = { float32: 1, uint8: 2, int32: 6, int64: 7, float16: 10, float64: 11 } as const;
export type OnnxType = keyof typeof ONNX_TYPES;
