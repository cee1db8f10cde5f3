import { describe, expect, it } from 'vitest';
import { type DeviceFault, deviceFaultOf } from './device-fault.ts';

/** Every error of the CUDA runtime (cudaError_t in driver_types.h of CUDA 12.9) but success, by what it says. */
const CUDA: Readonly<Record<DeviceFault, string>> = {
  full: `
    2 MemoryAllocation, 808 MpsMaxClientsReached, 809 MpsMaxConnectionsReached`,
  gone: `
    3 InitializationError, 34 StubLibrary, 35 InsufficientDriver, 36 CallRequiresNewerDriver, 46
    DevicesUnavailable, 100 NoDevice, 101 InvalidDevice, 102 DeviceNotLicensed, 214 ECCUncorrectable, 220
    NvlinkUncorrectable, 304 OperatingSystem, 802 SystemNotReady, 803 SystemDriverMismatch, 804
    CompatNotSupportedOnDevice, 805 MpsConnectionFailed, 806 MpsRpcFailure, 807 MpsServerNotReady, 810
    MpsClientTerminated, 999 Unknown`,
  broken: `
    1 InvalidValue, 4 CudartUnloading, 5 ProfilerDisabled, 6 ProfilerNotInitialized, 7
    ProfilerAlreadyStarted, 8 ProfilerAlreadyStopped, 9 InvalidConfiguration, 12 InvalidPitchValue, 13
    InvalidSymbol, 16 InvalidHostPointer, 17 InvalidDevicePointer, 18 InvalidTexture, 19
    InvalidTextureBinding, 20 InvalidChannelDescriptor, 21 InvalidMemcpyDirection, 22 AddressOfConstant, 23
    TextureFetchFailed, 24 TextureNotBound, 25 SynchronizationError, 26 InvalidFilterSetting, 27
    InvalidNormSetting, 28 MixedDeviceExecution, 31 NotYetImplemented, 32 MemoryValueTooLarge, 37
    InvalidSurface, 43 DuplicateVariableName, 44 DuplicateTextureName, 45 DuplicateSurfaceName, 49
    IncompatibleDriverContext, 52 MissingConfiguration, 53 PriorLaunchFailure, 65 LaunchMaxDepthExceeded, 66
    LaunchFileScopedTex, 67 LaunchFileScopedSurf, 68 SyncDepthExceeded, 69 LaunchPendingCountExceeded, 98
    InvalidDeviceFunction, 103 SoftwareValidityNotEstablished, 127 StartupFailure, 200 InvalidKernelImage,
    201 DeviceUninitialized, 205 MapBufferObjectFailed, 206 UnmapBufferObjectFailed, 207 ArrayIsMapped, 208
    AlreadyMapped, 209 NoKernelImageForDevice, 210 AlreadyAcquired, 211 NotMapped, 212 NotMappedAsArray, 213
    NotMappedAsPointer, 215 UnsupportedLimit, 216 DeviceAlreadyInUse, 217 PeerAccessUnsupported, 218
    InvalidPtx, 219 InvalidGraphicsContext, 221 JitCompilerNotFound, 222 UnsupportedPtxVersion, 223
    JitCompilationDisabled, 224 UnsupportedExecAffinity, 225 UnsupportedDevSideSync, 226 Contained, 300
    InvalidSource, 301 FileNotFound, 302 SharedObjectSymbolNotFound, 303 SharedObjectInitFailed, 400
    InvalidResourceHandle, 401 IllegalState, 402 LossyQuery, 500 SymbolNotFound, 600 NotReady, 700
    IllegalAddress, 701 LaunchOutOfResources, 702 LaunchTimeout, 703 LaunchIncompatibleTexturing, 704
    PeerAccessAlreadyEnabled, 705 PeerAccessNotEnabled, 708 SetOnActiveProcess, 709 ContextIsDestroyed, 710
    Assert, 711 TooManyPeers, 712 HostMemoryAlreadyRegistered, 713 HostMemoryNotRegistered, 714
    HardwareStackError, 715 IllegalInstruction, 716 MisalignedAddress, 717 InvalidAddressSpace, 718
    InvalidPc, 719 LaunchFailure, 720 CooperativeLaunchTooLarge, 721 TensorMemoryLeak, 800 NotPermitted, 801
    NotSupported, 811 CdpNotSupported, 812 CdpVersionMismatch, 900 StreamCaptureUnsupported, 901
    StreamCaptureInvalidated, 902 StreamCaptureMerge, 903 StreamCaptureUnmatched, 904 StreamCaptureUnjoined,
    905 StreamCaptureIsolation, 906 StreamCaptureImplicit, 907 CapturedEvent, 908 StreamCaptureWrongThread,
    909 Timeout, 910 GraphExecUpdateFailure, 911 ExternalDevice, 912 InvalidClusterSize, 913
    FunctionNotLoaded, 914 InvalidResourceType, 915 InvalidResourceConfiguration, 10000 ApiFailureBase`,
};

describe.each(Object.entries(CUDA))('CUDA errors that say: %s', (fault, list) => {
  it.each(list.split(',').map((each) => each.trim().split(/\s+/) as [string, string]))(
    '%s %s',
    (number, name) => {
      const where =
        'GPU=0 ; hostname=n1 ; file=cuda_allocator.cc ; line=49 ; expr=cudaMalloc((void**)&p, size); ';
      expect(deviceFaultOf(`swapper failed: CUDA failure ${number}: some words ; ${where}`)).toBe(fault);
      expect(deviceFaultOf(`Status Message: CUDA error cudaError${name}:some words`)).toBe(fault);
    },
  );
});

/** Texts as sources and reports of onnxruntime 1.30, TensorRT 10, cuDNN 8 and 9, cuBLAS, cuFFT and cuRAND have them. */
const TEXTS: readonly [DeviceFault | undefined, string][] = [
  // onnxruntime, core/framework/bfc_arena.cc
  [
    'full',
    "Non-zero status code returned while running Conv node. Name:'Conv_111' Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:376 void* onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) Failed to allocate memory for requested buffer of size 13111296",
  ],
  ['full', 'Available memory of 1024 is smaller than requested bytes of 2048'],
  ['full', 'Failed to find a free memory block despite calling Extend. rounded_bytes=512'],
  ['full', 'BFC Arena ran out of memory trying to allocate 512.  Current allocation summary follows.'],
  // onnxruntime, core/framework/allocator.h, also in host memory
  ['full', 'Memory allocation failed. Size=939524096'],
  ['full', 'std::bad_alloc'],
  [
    'full',
    "thrust::THRUST_300001_SM_900_NS::system::detail::bad_alloc: 'std::bad_alloc: cudaErrorMemoryAllocation: out of memory'",
  ],
  // onnxruntime, core/providers/cuda/cuda_mempool_arena.cc
  ['full', 'CudaMempoolArena::Alloc: cudaMallocFromPoolAsync failed: out of memory (2), size=512'],
  [
    'full',
    'CudaMempoolArena::AllocOnStream: cudaMallocFromPoolAsync failed on stream=94: out of memory (2), size=8',
  ],
  [
    'broken',
    'CudaMempoolArena::Alloc: cudaMallocFromPoolAsync failed: an illegal memory access was encountered (700), size=5',
  ],
  [
    'gone',
    'CudaMempoolArena::Alloc: cudaMallocFromPoolAsync failed: no CUDA-capable device is detected (100), size=5',
  ],
  // onnxruntime, core/providers/cuda/cuda_call.cc, for each library
  [
    'full',
    'CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0 ; line=168 ; expr=cublasCreate(&cublas_handle_);',
  ],
  ['broken', 'CUBLAS failure 1: CUBLAS_STATUS_NOT_INITIALIZED ; GPU=0 ; expr=cublasCreate(&cublas_handle_);'],
  ['broken', 'CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED ; GPU=0'],
  ['broken', 'CUBLAS failure 14: CUBLAS_STATUS_INTERNAL_ERROR ; GPU=0'],
  ['full', 'CUDNN failure 2: CUDNN_STATUS_ALLOC_FAILED ; GPU=0 ; expr=cudnnCreate(&cudnn_handle_);'],
  ['full', 'CUDNN failure 4003: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ; GPU=0'],
  ['full', 'CUDNN failure 4004: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ; GPU=0'],
  ['broken', 'CUDNN failure 4: CUDNN_STATUS_INTERNAL_ERROR ; GPU=0'],
  ['broken', 'CUDNN failure 8: CUDNN_STATUS_EXECUTION_FAILED ; GPU=0'],
  ['broken', 'CUDNN failure 1001: CUDNN_STATUS_NOT_INITIALIZED ; GPU=0'],
  ['broken', 'CUDNN failure 4000: CUDNN_STATUS_INTERNAL_ERROR ; GPU=0'],
  ['broken', 'CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED ; GPU=0'],
  ['broken', 'CUDNN failure 5003: CUDNN_STATUS_EXECUTION_FAILED_CUDART ; GPU=0'],
  ['broken', 'CUDNN_FE failure 11: CUDNN_BACKEND_API_FAILED ; GPU=0 ; file=conv.cc ; line=224'],
  [
    'full',
    'CUDNN_FE failure 11: CUDNN_BACKEND_API_FAILED ; GPU=0 ; CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED',
  ],
  ['full', 'CUFFT failure 2: CUFFT_ALLOC_FAILED ; GPU=0'],
  ['broken', 'CUFFT failure 6: CUFFT_EXEC_FAILED ; GPU=0'],
  ['full', 'CURAND failure 102: (see curand.h & look for curandStatus or CURAND_STATUS_xxx) ; GPU=0'],
  ['broken', 'CURAND failure 201: (see curand.h & look for curandStatus or CURAND_STATUS_xxx) ; GPU=0'],
  ['broken', 'NCCL failure 1: unhandled cuda error ; GPU=0'],
  // The driver's own names
  ['full', 'CUDA_ERROR_OUT_OF_MEMORY: out of memory'],
  ['gone', 'CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected'],
  ['broken', 'CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered'],
  // onnxruntime, core/providers/tensorrt/tensorrt_execution_provider.cc
  ['broken', 'TensorRT EP failed to create engine from network.'],
  ['broken', 'TensorRT EP failed to create engine from network for fused node: TRTKernel_graph_0'],
  ['broken', 'TensorRT EP could not build execution context for fused node: TRTKernel_graph_0'],
  ['broken', 'TensorRT EP failed to create context.'],
  ['broken', 'TensorRT EP failed to deserialize engine.'],
  ['broken', 'TensorRT EP execution context enqueue failed.'],
  ['broken', "TensorRT EP failed to call nvinfer1::IExecutionContext::setInputShape() for input 'target'"],
  // TensorRT's own log lines
  [
    'full',
    '[virtualMemoryBuffer.cpp::resizePhysical::154] Error Code 2: OutOfMemory (Requested size was 3356491776 bytes.)',
  ],
  ['full', 'Error Code 2: OutOfMemory (no further information)'],
  ['full', 'defaultAllocator.cpp::allocate::63] Error Code 1: Cuda Runtime (out of memory)'],
  ['full', '../rtSafe/safeRuntime.cpp (25) - Cuda Error in allocate: 2 (out of memory)'],
  [
    'full',
    'Requested amount of GPU memory (4294967296 bytes) could not be allocated. There may not be enough free memory',
  ],
  ['gone', 'Error Code 1: Cuda Runtime (no CUDA-capable device is detected)'],
  ['gone', 'Error Code 1: Cuda Runtime (unknown error)'],
  [
    'broken',
    'IExecutionContext::enqueueV3: Error Code 1: Cuda Runtime (an illegal memory access was encountered)',
  ],
  ['broken', 'IExecutionContext::enqueueV3: Error Code 1: Cask (Cask convolution execution)'],
  ['broken', 'IExecutionContext::enqueueV3: Error Code 1: Myelin ([::0] Platform (Cuda) error)'],
  // PyTorch in a sidecar
  [
    'full',
    'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.7 GiB',
  ],
  // Several at once: what says most about the device counts.
  ['full', 'CUDNN failure 4000: CUDNN_STATUS_INTERNAL_ERROR ; GPU=0 ; CUDA failure 2: out of memory ; GPU=0'],
  ['gone', 'CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0 ; CUDA failure 999: unknown error ; GPU=0'],
  // No fault of a device
  [undefined, 'The picture shows no CUDA, and no failure.'],
  [undefined, 'a session thread ended with code 1'],
  // A file may bring a decoder to say this.
  [undefined, '[h264 @ 0x55] Error while opening decoder: Out of memory'],
  [undefined, 'ffmpeg ended with status 1: Failed to allocate memory'],
  [undefined, 'Invalid size requested for allocation: 18446744073709551615 * 4'],
  [
    undefined,
    'Got invalid dimensions for input: target for the following indices index: 0 Got: 2 Expected: 1',
  ],
  [undefined, 'OneHot: failed to allocate output tensor. Output shape may be too large.'],
  [undefined, 'libcudnn.so.9: cannot open shared object file: No such file or directory'],
];

describe('what a text says of the device', () => {
  it.each(TEXTS)('%s: %s', (fault, text) => {
    expect(deviceFaultOf(text)).toBe(fault);
  });
});
