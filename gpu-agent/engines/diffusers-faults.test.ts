/**
 * @module-tag python
 * @module-tag ffmpeg
 */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import {
  type DiffusersSettings,
  diffusersCommand,
  toldToDiffusers,
  writeDiffusersSettings,
} from '@semblance/testkit/engine-sidecar/diffusers';
import { pythonEnv } from '@semblance/testkit/engine-sidecar/python-env';
import { portraits } from '@semblance/testkit/gpu-agent/portraits';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Subject, sidecar } from '../conformance/subject.ts';

const START_MS = 300_000;
const idle = new AbortController().signal;
const run = promisify(execFile);
type Change = (settings: DiffusersSettings) => void;

describe('the sidecar for diffusers, when something is wrong', () => {
  let dir: string;
  let settings: string;
  let subject: Subject;
  let inputs: Record<string, string>;
  let opened = 0;

  async function open(change?: Change): Promise<Subject> {
    const own = join(dir, `s${++opened}`);
    settings = await writeDiffusersSettings(join(own, 'settings'), change);
    const start = sidecar(join(own, 'engine.sock'), await diffusersCommand(settings));
    return start({ dir, signal: AbortSignal.timeout(60_000) });
  }

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'semblance-diffusers-'));
    await pythonEnv();
    inputs = { ...(await portraits(dir, 288)).inputs };
    subject = await open(only);
  }, START_MS);
  afterAll(async () => {
    await subject?.close();
    await rm(dir, { recursive: true, force: true });
  });

  async function render(parameters: Record<string, string>, on = subject, files = inputs) {
    const outputDir = await mkdtemp(join(dir, 'out-'));
    const work = { capability: 'face-swap-image' as const, inputs: files, parameters, outputDir };
    await on.render(work, { signal: idle, onProgress: () => {} });
    return join(outputDir, 'output.png');
  }
  const loads = async () => (await toldToDiffusers(settings, 'from_pretrained')).length;

  it.each([
    ['fail', 'Error', /settings\.yaml\.capabilities\.face-swap-image: ValueError: `image` has to be/],
    ['nan', 'Error', /face-swap-image\.dtype: .* no numbers/],
    ['two', 'Error', /face-swap-image\.arguments: the pipeline made 2 pictures/],
    ['large', 'Error', /output\.pixels: the pipeline returned 5000x5000/],
    ['grey', 'Error', /shape \(\d+, \d+, 1\), which is no picture/],
    ['unsafe', 'RenderError', /safety checker/],
    ['no-face', 'RenderError', /There is no face\./],
  ])('tells whose fault it is: %s', async (mode, name, message) => {
    const before = await loads();
    const error = await render({ mode }).catch((reason: Error) => reason);
    expect(error).toMatchObject({ name, message: expect.stringMatching(message) });
    expect(await loads()).toBe(before);
  });

  it.each([
    ['memory', /CUDA out of memory.*face-swap-image\.size\.pixels/],
    ['cpu-memory', /can't allocate memory/],
  ])(
    'interrupts the render that finds no memory, and loads the pipeline again: %s',
    async (mode, message) => {
      const before = await loads();
      await expect(render({ mode })).rejects.toMatchObject({
        name: 'EngineInterruptedError',
        message: expect.stringMatching(message),
      });
      await render({ mode: 'ok' });
      expect(await loads()).toBe(before + 1);
    },
  );

  it('refuses a value that the settings do not translate', async () => {
    await expect(render({ steps: '17' })).rejects.toMatchObject({
      code: 'processing_failed',
      message: "The engine has no steps '17'.",
    });
  });

  it('renders by a class in a file of the owner, with its inputs as a list, and a sample at its start', async () => {
    const own = join(dir, 'mine');
    await mkdir(own);
    const got = join(own, 'got');
    const code = `from diffusers import TrialOldPipeline\n\n\nclass Mine(TrialOldPipeline):
    def __call__(self, image, prompt):
        with open(${JSON.stringify(got)}, "a") as file:
            file.write(f"{prompt} {[each.size for each in image]}\\n")
        return super().__call__(image[0], prompt)\n`;
    await writeFile(join(own, 'mine.py'), code);
    const mine = await open((settings) => {
      only(settings);
      const both = { image: 'image', face: { argument: 'image', as: 'picture' } };
      const { weights } = photo(settings);
      const rest = { weights, memory_mib: 16, inputs: both, arguments: { prompt: 'both' }, sample: inputs };
      settings.capabilities['face-swap-image'] = { pipeline: 'Mine', file: join(own, 'mine.py'), ...rest };
    });
    try {
      const path = await render({}, mine);
      expect(await readFile(got, 'utf8')).toMatch(/^(both \[\(288, 288\), \(\d+, \d+\)\]\n){2}$/);
      const [made, base] = await Promise.all(
        [path, inputs.image ?? ''].map((file) => sharp(file).removeAlpha().raw().toBuffer()),
      );
      expect(made).toEqual(base);
      const grey = join(dir, 'grey');
      const half = { create: { width: 64, height: 48, channels: 3, background: '#808080' } } as const;
      await sharp(half).toColourspace('grey16').png().toFile(grey);
      const { channels } = await sharp(await render({}, mine, { ...inputs, image: grey })).stats();
      expect(channels.map(({ mean }) => Math.round(mean))).toEqual([128, 128, 128]);
    } finally {
      await mine.close();
    }
  });

  it('loads pickled weights only where the owner allows them', async () => {
    const pickled = (allow: boolean) => (settings: DiffusersSettings) => {
      only(settings);
      const weights = { folder: 'pickled', licence: 'x', allow_pickle: allow };
      Object.assign(photo(settings), { weights, loras: [{ file: 'swap.bin', licence: 'x' }] });
      if (!allow) delete photo(settings).loras;
    };
    await expect(open(pickled(false))).rejects.toThrow(
      /pickled lacks a \.safetensors file; .*face-swap-image\.weights\.allow_pickle/,
    );
    const subject = await open(pickled(true));
    await subject.close();
    expect(await toldToDiffusers(settings, 'from_pretrained')).toMatchObject([{ use_safetensors: null }]);
  });

  it.each<[string, RegExp, Change]>([
    [
      'a class that diffusers lacks',
      /\.pipeline: diffusers 0\.42\.1 has no class of pipelines GonePipeline/,
      photoWith({ pipeline: 'GonePipeline' }),
    ],
    ['a class that is no pipeline', /has no class of pipelines Model/, photoWith({ pipeline: 'Model' })],
    [
      'an argument that the class lacks',
      /\.arguments: TrialImg2ImgPipeline takes no argument guidance; did you mean guidance_scale\?/,
      photoWith({ arguments: { guidance: 3 } }),
    ],
    [
      'an input whose argument the class lacks',
      /\.inputs\.face: TrialImg2ImgPipeline takes no argument source/,
      photoWith({ inputs: { image: 'image', face: 'source' } }),
    ],
    [
      'an argument that is missing',
      /TrialOldPipeline needs the argument prompt/,
      (settings) => {
        const { weights } = photo(settings);
        const rest = { weights, memory_mib: 16, inputs: { image: 'image' } };
        settings.capabilities['face-swap-image'] = { pipeline: 'TrialOldPipeline', ...rest };
      },
    ],
    [
      'a LoRA that does not fit',
      /\.loras\[0\]\.file: ValueError: no LoRA keys/,
      photoWith({ loras: [{ file: 'broken.safetensors', licence: 'x' }] }),
    ],
    [
      'a card that is not there',
      /devices: there is no cuda:1/,
      (settings) => {
        settings.devices = ['cuda:1'];
      },
    ],
  ])('does not start with %s', async (_what, message, change) => {
    await expect(
      open((settings) => {
        only(settings);
        change(settings);
      }),
    ).rejects.toThrow(message);
  });

  it.each<[string, RegExp, Change]>([
    ['an unknown name', /face-swap-image\.model is unknown/, photoWith({ model: 'x' })],
    [
      'no device',
      /\.devices must be a list/,
      (settings) => {
        settings.devices = [];
      },
    ],
    [
      'a device that is none',
      /'gpu' is no device/,
      (settings) => {
        settings.devices = ['gpu'];
      },
    ],
    [
      'weights that would have to be downloaded',
      /owner\/model is no folder with a model_index\.json; nothing is downloaded/,
      photoWith({ weights: { folder: 'owner/model', licence: 'x' } }),
    ],
    [
      'weights without a licence',
      /weights\.licence is missing/,
      photoWith({ weights: { folder: 'weights' } }),
    ],
    [
      'a pickled LoRA',
      /loras\[0\]\.file must be a \.safetensors file/,
      photoWith({ loras: [{ file: 'swap.bin', licence: 'x' }] }),
    ],
    ['a class in a module', /pipeline must be the name of a class/, photoWith({ pipeline: 'os.system' })],
    [
      'an argument of the sidecar',
      /arguments\.generator: the sidecar itself gives generator/,
      photoWith({ arguments: { generator: 1 } }),
    ],
    [
      'an argument that is given twice',
      /arguments\.image is given twice/,
      photoWith({ arguments: { image: 1 } }),
    ],
    [
      'an input that the job lacks',
      /inputs\.video: the job has only image, face/,
      photoWith({ inputs: { video: 'image' } }),
    ],
    [
      'an offload from the CPU',
      /memory\.cpu_offload needs devices other than the CPU/,
      photoWith({ memory: { cpu_offload: 'model' } }),
    ],
    [
      'an image encoder that is pickled',
      /ip_adapter\.encoder must have a \.safetensors file/,
      photoWith({ ip_adapter: { file: 'swap.safetensors', encoder: 'pickled', licence: 'x' } }),
    ],
    [
      'attention slices beside an IP-Adapter',
      /memory\.attention_slicing does not go with ip_adapter/,
      photoWith({
        ip_adapter: { file: 'swap.safetensors', licence: 'x' },
        memory: { attention_slicing: true },
      }),
    ],
    [
      'a capability that it has not',
      /this sidecar has only face-swap-image, /,
      (settings) => {
        settings.capabilities.avatar = photo(settings);
      },
    ],
  ])('says in one line what is wrong with settings that have %s', async (_what, message, change) => {
    const [program = '', ...words] = await diffusersCommand(
      await writeDiffusersSettings(join(dir, `bad-${++opened}`), change),
    );
    const error = await run(program, words).catch((reason: { stderr: string }) => reason);
    expect(error).toMatchObject({ code: 1, stderr: expect.stringMatching(/^[^\n]+\n$/) });
    expect(error.stderr).toMatch(message);
  });
});

/** Gives Photo Swap other settings. */
function photoWith(change: Record<string, unknown>): Change {
  return (settings) => {
    Object.assign(photo(settings), change);
  };
}

/** Leaves Photo Swap alone in the settings. */
function only(settings: DiffusersSettings): void {
  settings.capabilities = { 'face-swap-image': photo(settings) };
}

function photo({ capabilities }: DiffusersSettings): Record<string, unknown> {
  return capabilities['face-swap-image'] as Record<string, unknown>;
}
