import { copyFile, mkdir, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  status,
} from '@grpc/grpc-js';
import {
  EngineServiceService,
  type GetInfoResponse,
  type InspectRequest,
  InspectResponse,
  type RenderProgress,
  type RenderRequest,
  RenderResponse,
} from '@semblance/proto/semblance/engine/v1/engine';

type Call = ServerWritableStream<RenderRequest, RenderResponse>;

export const GOOD_INFO: GetInfoResponse = {
  name: 'scripted',
  version: '1.0',
  capabilities: [
    {
      capability: 'face-swap-image',
      slots: 1,
      memoryMib: 64,
      vramMib: 0,
      limits: undefined,
      options: [],
      severalFaces: false,
    },
  ],
  concurrency: 2,
  vramMib: 0,
  inspects: false,
};

/** What the scripted sidecar finds out. */
const FINDINGS = {
  faces: { found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] },
  hints: [
    { code: 'face_small', message: 'The face is small.', input: 'face' },
    { code: 'of_its_own', message: 'It is blue.', input: undefined },
  ],
  models: [{ name: 'their-model', sha256: 'ab'.repeat(32), licence: 'MIT' }],
  // Only the agent knows what it gave.
  options: { made_up: '1' },
  mapped: [],
};
/** Findings that break a rule, by the parameter `mode`. */
const BAD_FINDINGS: Readonly<Record<string, object>> = {
  'bad-counts': { ...FINDINGS, faces: { found: 3, changed: 1, left: [] } },
  'bad-number': { ...FINDINGS, faces: { found: 0, changed: 1, left: [{ reason: 'bystander', count: -1 }] } },
  'bad-reason': { ...FINDINGS, faces: { found: 1, changed: 0, left: [{ reason: 'Far Away', count: 1 }] } },
  'bad-code': { models: [], options: {}, mapped: [], hints: [{ code: 'a-b', message: 'It is blue.' }] },
  'bad-message': {
    models: [],
    options: {},
    mapped: [],
    hints: [{ code: 'face_small', message: 'x'.repeat(301) }],
  },
  'bad-input': {
    models: [],
    options: {},
    mapped: [],
    hints: [{ code: 'face_small', message: 'It is blue.', input: 'video' }],
  },
  'bad-hash': { ...FINDINGS, models: [{ name: 'm', sha256: 'AB', licence: 'MIT' }] },
  'bad-licence': { ...FINDINGS, models: [{ name: 'm', sha256: 'ab'.repeat(32), licence: ' ' }] },
  'too-many-models': { ...FINDINGS, models: Array(17).fill(FINDINGS.models[0]) },
  'too-many-hints': { models: [], options: {}, mapped: [], hints: Array(9).fill(FINDINGS.hints[0]) },
};

export interface ScriptedOptions {
  readonly info?: GetInfoResponse;
  /** When false, a running render is missing from `running`, or an ended one still appears in it. */
  readonly honest?: boolean;
  /** Error of every WarmUp. */
  readonly warmUpFault?: { readonly code: status; readonly details: string };
}

/** Starts a sidecar in this process that behaves, or misbehaves, as the parameter `mode` of a render says. */
export async function startScriptedSidecar(socket: string, options: ScriptedOptions = {}) {
  await rm(socket, { force: true });
  const root = dirname(socket);
  const running = new Set<string>();
  const state = {
    serving: true,
    answering: true,
    warmUps: 0,
    cancelled: 0,
    infos: 0,
    inspected: [] as string[],
    /** Options of each render. */
    options: [] as Readonly<Record<string, string>>[],
  };
  const server = new Server();
  const never = () => new Promise<never>(() => {});

  const say = (call: Call, message: RenderResponse['message']) => call.write({ message });
  const progress = (call: Call, fraction: number, more: Partial<RenderProgress> = {}) =>
    say(call, { $case: 'progress', value: { fraction, stage: 'work', secondsLeft: undefined, ...more } });
  const result = (call: Call, change: Record<string, unknown> = {}) =>
    call.write(
      RenderResponse.fromPartial({
        message: {
          $case: 'result',
          value: {
            outputFile: 'out.png',
            contentType: 'image/png',
            units: { unit: 'image', milliUnits: 1_000n },
            stages: [{ name: 'work', milliseconds: 1, engine: 'other' }],
            details: { faces: '2' },
            ...change,
          },
        },
      }),
    );

  async function perform(call: Call): Promise<void> {
    const { parameters, options, outputDir, inputs } = call.request;
    state.options.push(options);
    const out = join(root, outputDir);
    const file = join(out, 'out.png');
    const mode = parameters.mode ?? 'ok';
    progress(call, 0.5, { secondsLeft: 4 });
    if (!['missing', 'link', 'folder', 'empty', 'swapped'].includes(mode)) await writeFile(file, 'picture');
    switch (mode) {
      case 'slow':
      case 'ignores-cancel':
        while (!call.cancelled || mode === 'ignores-cancel') {
          progress(call, 0.5);
          await delay(10);
        }
        return;
      case 'silent':
        return never();
      case 'refuse':
        return void say(call, {
          $case: 'failure',
          value: {
            code: 'face_not_detected',
            message: 'There is no face in the image.',
            findings: undefined,
          },
        });
      case 'findings':
        return void result(call, { findings: FINDINGS });
      case 'refuse-with-findings':
        return void say(call, {
          $case: 'failure',
          value: { code: 'face_not_detected', message: 'There is no face.', findings: FINDINGS },
        });
      case 'unknown-code':
        return void say(call, {
          $case: 'failure',
          value: { code: 'tired', message: 'no', findings: undefined },
        });
      case 'no-message':
        return void say(call, {
          $case: 'failure',
          value: { code: 'processing_failed', message: ' ', findings: undefined },
        });
      case 'backwards':
        return void progress(call, 0.2);
      case 'backwards-for-ever':
        progress(call, 0.2);
        return never();
      case 'refuses-for-ever':
        say(call, {
          $case: 'failure',
          value: { code: 'face_not_detected', message: 'No face.', findings: undefined },
        });
        return never();
      case 'nan':
        return void progress(call, Number.NaN);
      case 'beyond':
        return void progress(call, 1.01);
      case 'no-stage':
        return void progress(call, 0.6, { stage: '' });
      case 'endless':
        return void progress(call, 0.6, { secondsLeft: Number.POSITIVE_INFINITY });
      case 'empty-message':
        return void say(call, undefined);
      case 'no-result':
        return;
      case 'twice':
        result(call);
        break;
      case 'huge':
        return void result(call, { details: { all: 'x'.repeat(1_000_000) } });
      case 'talkative':
        return void result(call, { details: { all: 'x'.repeat(1_000) } });
      case 'climbs':
        return void result(call, { outputFile: '../in/image' });
      case 'absolute':
        return void result(call, { outputFile: '/etc/hostname' });
      case 'parent':
        return void result(call, { outputFile: '..' });
      case 'link':
        await symlink('/etc/hostname', file);
        break;
      case 'folder':
        await mkdir(file);
        break;
      case 'empty':
        await writeFile(file, '');
        break;
      case 'swapped':
        // The folder, not the file, is the link that leads elsewhere.
        await rm(out, { recursive: true });
        await symlink(join(root, 'elsewhere'), out);
        break;
      case 'wrong-unit':
        return void result(call, { units: { unit: 'second', milliUnits: 1_000n } });
      case 'no-units':
        return void result(call, { units: { unit: 'image', milliUnits: 0n } });
      case 'bad-stage':
        return void result(call, { stages: [{ name: 'x', milliseconds: Number.NaN, engine: '' }] });
      case 'copies':
        // Copies the input to the output and reports the scripted values.
        await copyFile(join(root, inputs.video ?? ''), join(out, 'out.mp4'));
        return void result(call, {
          outputFile: 'out.mp4',
          contentType: 'video/mp4',
          units: { unit: 'second', milliUnits: BigInt(parameters.milliseconds ?? 0) },
        });
      case 'inputs':
        await writeFile(file, Object.values(inputs).join(' '));
        break;
    }
    const findings = BAD_FINDINGS[mode];
    result(call, findings && { findings });
  }

  server.addService(EngineServiceService, {
    getInfo(_call: unknown, answer: (error: null, value: GetInfoResponse) => void) {
      state.infos++;
      answer(null, options.info ?? GOOD_INFO);
    },
    warmUp(_call: unknown, answer: (error: object | null, value: object) => void) {
      state.warmUps++;
      answer(options.warmUpFault ?? null, {});
    },
    health(_call: unknown, answer: (error: null, value: object) => void) {
      if (state.answering) answer(null, { serving: state.serving, running: [...running] });
    },
    async inspect(
      call: ServerUnaryCall<InspectRequest, InspectResponse>,
      answer: (error: object | null, value?: InspectResponse) => void,
    ) {
      const { inspectionId, parameters, inputs } = call.request;
      const mode = parameters.mode ?? 'ok';
      state.inspected.push(...Object.keys(inputs).toSorted());
      running.add(inspectionId);
      while (mode === 'slow' && !call.cancelled) await delay(10);
      running.delete(inspectionId);
      if (mode === 'unavailable') return answer({ code: status.UNAVAILABLE, details: 'as asked' });
      if (mode === 'refuse') {
        const failure = { code: 'face_not_detected', message: 'There is no face.', findings: FINDINGS };
        return answer(null, InspectResponse.fromPartial({ message: { $case: 'failure', value: failure } }));
      }
      const value = BAD_FINDINGS[mode] ?? FINDINGS;
      const message = mode === 'empty-message' ? undefined : { $case: 'findings' as const, value };
      return answer(null, InspectResponse.fromPartial({ message }));
    },
    render(call: Call) {
      const { renderId, parameters } = call.request;
      const codes: Record<string, status> = {
        unavailable: status.UNAVAILABLE,
        exhausted: status.RESOURCE_EXHAUSTED,
        internal: status.INTERNAL,
      };
      const code = codes[parameters.mode ?? ''];
      if (code !== undefined) {
        call.emit('error', { code, details: 'as asked' });
        return;
      }
      running.add(renderId);
      call.on('cancelled', () => state.cancelled++);
      perform(call)
        .catch((error: Error) => call.emit('error', { code: status.INTERNAL, details: error.message }))
        .finally(() => {
          running.delete(renderId);
          call.end();
        });
    },
  } as never);
  await new Promise<void>((resolve, reject) =>
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) =>
      error ? reject(error) : resolve(),
    ),
  );
  return {
    state,
    running,
    /** Cuts every connection, as a killed process would. */
    kill() {
      server.forceShutdown();
      return rm(socket, { force: true });
    },
  };
}
