/** Admission of RenderJobs by a real Kubernetes API, against the checks of submits by the API: the same cases to both. */
import { isKubeError } from '@semblance/common/kube/index';
import { checkSubmission } from '@semblance/control-plane/jobs/submit';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { CAPABILITIES, FACE_KEYS, FACES, faceRole } from '@semblance/engine-api/capabilities';
import {
  JOB_CAPABILITIES,
  type JobCapability,
  submitParser,
  submitSchema,
} from '@semblance/gateway/jobs/submit-schemas';
import { type ResourceRig, startResourceRig } from '@semblance/testkit/crds/crds';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

type Body = Readonly<Record<string, unknown>>;

let rig: ResourceRig;
beforeAll(async () => {
  rig = await startResourceRig();
});
afterAll(() => rig?.close());

const KEY = 'api/up-01k9x3v7m2q8r5t1w4y6z0abcd';
/** Fields of a submit that are no parameters of the work. */
const OTHERS = ['engine_options', 'callback_url', 'metadata', 'expires_in', FACE_KEYS, FACES];
/** Fields of a submit with another name as parameters. */
const RENAMED = ['voice'];

const inputsOf = (capability: JobCapability) =>
  Object.entries(CAPABILITIES[capability].inputs as Record<string, { field: string }>);

/** Returns the fields of a submit that are parameters of the work. */
function parametersOf(capability: JobCapability): string[] {
  const keys = inputsOf(capability).map(([, { field }]) => field);
  return Object.keys(submitSchema(capability).shape).filter(
    (name) => !keys.includes(name) && !OTHERS.includes(name) && !RENAMED.includes(name),
  );
}

/** Returns the body of a submit that both take. */
function goodBody(capability: JobCapability): Body {
  return {
    ...Object.fromEntries(inputsOf(capability).map(([, { field }]) => [field, KEY])),
    ...(capability === 'avatar' ? { script: 'Good morning.' } : {}),
  };
}

/** Returns the spec that says the same as the body of a submit, whether the API takes it or not. */
function specOf(capability: JobCapability, body: Body): object {
  const texts = (values: Body) => Object.fromEntries(Object.entries(values).map(([k, v]) => [k, String(v)]));
  const named = inputsOf(capability).flatMap(([role, { field }]) =>
    body[field] === undefined ? [] : [{ name: role, key: body[field] }],
  );
  const faces = ((body[FACE_KEYS] ?? []) as string[]).map((key, i) => ({ name: faceRole(i), key }));
  const parameters = Object.fromEntries(
    Object.entries(body).filter(
      ([name]) => !OTHERS.includes(name) && !inputsOf(capability).some(([, { field }]) => field === name),
    ),
  );
  return {
    capability,
    inputs: [...named, ...faces],
    ...(Object.keys(parameters).length > 0 ? { parameters: texts(parameters) } : {}),
    ...(body.engine_options ? { engineOptions: texts(body.engine_options as Body) } : {}),
  };
}

/** Returns whether gateway and control plane take the submit, as far as they need no database for it. */
function apiTakes(capability: JobCapability, body: Body): boolean {
  try {
    const { metadata, expiresInSeconds: _, ...submit } = submitParser(capability)(body);
    checkSubmission({ capability, ...submit, metadata: metadata?.entries }, true);
    return true;
  } catch {
    return false;
  }
}

async function admissionTakes(spec: object): Promise<boolean> {
  try {
    await rig.create(RENDERJOB_RESOURCE, spec);
    return true;
  } catch (error) {
    if (isKubeError(error, 'invalid')) return false;
    throw error;
  }
}

/** Compares the verdicts on a body of which one field is each of the values. */
async function expectAgreement(
  capability: JobCapability,
  field: string,
  values: readonly unknown[],
): Promise<void> {
  const good = goodBody(capability);
  const { [field]: _, ...without } = good;
  const bodies = [without, ...values.map((value) => ({ ...good, [field]: value }))];
  const verdicts = await Promise.all(
    bodies.map(async (body) => {
      const told = JSON.stringify((body as Body)[field])?.slice(0, 40) ?? 'left out';
      const api = apiTakes(capability, body);
      return { told, api, admission: await admissionTakes(specOf(capability, body)) };
    }),
  );
  expect(verdicts.filter(({ api, admission }) => api !== admission)).toEqual([]);
  // A table of which nothing is refused, or all is, would prove nothing.
  expect(new Set(verdicts.map(({ api }) => api)).size).toBe(2);
}

const TEXTS = [
  ...['', ' ', '\t\r\n', '\u00a0\u2003\u3000', '\ufeff', ' \ufeff ', 'x', ' x ', '\0', 'a\0b', '0'],
  ...['1k', '2k', '4k', '1K', 'null', 'en', 'de-AT', 'slt', '<speak>Hello</speak>', 'a < b'],
  ...[64, 65, 128, 129, 5_000, 5_001].flatMap((n) => ['x'.repeat(n), '\u{1f600}'.repeat(n)]),
  ` ${'x'.repeat(4_999)}`,
];
const NUMBERS = [480, 720, 1080, 0, 1, -480, 479, 481, 480.5, 360, 1079, 2160];

describe.each(JOB_CAPABILITIES)('a RenderJob of %s is refused when a submit would be', (capability) => {
  it.each(parametersOf(capability).map((name) => [name]))('with the parameter %s', async (name) => {
    // Numbers are text in a RenderJob, so each field gets values of its own type.
    const takesNumbers = [480, 720, 1080].some((value) =>
      apiTakes(capability, { ...goodBody(capability), [name]: value }),
    );
    await expectAgreement(capability, name, takesNumbers ? NUMBERS : TEXTS);
  });

  it.each(inputsOf(capability).map(([, { field }]) => [field]))('with the file key %s', async (field) => {
    await expectAgreement(capability, field, [
      ...[
        KEY,
        'api/a',
        'api/a/b.png',
        '',
        'api',
        'api/',
        'API/a',
        'out/u/1.png',
        ` ${KEY}`,
        `${KEY} `,
        `${KEY}\n`,
      ],
      ...[
        'api//a',
        'api/.a',
        'api/a/../b',
        'api/é',
        'https://example.com/a.png',
        '/etc/passwd',
        'api/a?b',
        'api/a\0',
      ],
      ...[`api/${'x'.repeat(508)}`, `api/${'x'.repeat(509)}`],
    ]);
  });

  it('with options of the engine', async () => {
    const many = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`o${i}`, i]));
    await expectAgreement(capability, 'engine_options', [
      ...[
        { seed: 7 },
        { a: true },
        { a: '' },
        { a: 'x'.repeat(2_000) },
        { a: 'x'.repeat(2_001) },
        many(16),
        many(17),
      ],
      ...[{ A: 1 }, { '': 1 }, { 'a b': 1 }, { _a: 1 }, { 'a-b': 1 }, { a: 'x\0' }],
      ...[{ [`a${'b'.repeat(63)}`]: 1 }, { [`a${'b'.repeat(64)}`]: 1 }],
    ]);
  });

  it('with a parameter that it has not, which the API passes over', async () => {
    const foreign = JOB_CAPABILITIES.flatMap(parametersOf).filter(
      (name) => !parametersOf(capability).includes(name),
    );
    for (const name of new Set([...foreign, 'outut_resolution_p', 'seed'])) {
      const spec = specOf(capability, { ...goodBody(capability), [name]: '1k' });
      await expect(rig.create(RENDERJOB_RESOURCE, spec), name).rejects.toThrow(/takes? no parameter/);
    }
  });
});

it('pictures of one face: as many as the API takes, and in the same order', async () => {
  for (const capability of ['face-swap', 'face-swap-image'] as const)
    for (const count of [0, 1, 2, 8, 9]) {
      const { face_key: _, ...rest } = goodBody(capability);
      const body = { ...rest, [FACE_KEYS]: Array(count).fill(KEY) };
      const verdicts = [apiTakes(capability, body), await admissionTakes(specOf(capability, body))];
      expect([count, ...verdicts]).toEqual([count, count >= 1 && count <= 8, count >= 1 && count <= 8]);
    }
});

it('the parser makes of a submit what admission was asked about', () => {
  for (const capability of JOB_CAPABILITIES) {
    const { inputs, parameters } = submitParser(capability)(goodBody(capability));
    const spec = specOf(capability, goodBody(capability)) as {
      inputs: { name: string; key: string }[];
      parameters?: Body;
    };
    expect(Object.fromEntries(spec.inputs.map(({ name, key }) => [name, key]))).toEqual(inputs);
    // A default that the API fills in is one of the engine as well.
    expect(parameters).toMatchObject(spec.parameters ?? {});
  }
});

it('a script may be named by its digest, as the service does, and by nothing else', async () => {
  const inputs = [{ name: 'image', key: KEY }];
  const avatar = (parameters: object) => admissionTakes({ capability: 'avatar', inputs, parameters });
  const digest = 'a'.repeat(64);
  expect(await avatar({ script_sha256: digest })).toBe(true);
  for (const parameters of [
    {},
    { script_sha256: '' },
    { script_sha256: digest.toUpperCase() },
    { script_sha256: `${digest}a` },
    { script_sha256: digest, script: 'x' },
  ])
    expect(await avatar(parameters), JSON.stringify(parameters)).toBe(false);
});

it('a mapping of faces may be named by its digest, as the service does, and only where people are told apart', async () => {
  const digest = 'a'.repeat(64);
  const takes = (capability: string, parameters: object) => {
    const target = capability === 'face-swap-image' ? 'image' : 'video';
    const ofOne: Record<string, string[]> = {
      'lip-sync': ['video', 'audio'],
      'motion-control': ['image', 'motion_video'],
      'character-swap': ['video', 'character'],
    };
    const names = ofOne[capability] ?? [target, 'face', 'face_of_1', 'face_of_10'];
    return admissionTakes({ capability, inputs: names.map((name) => ({ name, key: KEY })), parameters });
  };
  for (const capability of ['face-swap', 'face-swap-image', 'lip-sync', 'motion-control', 'character-swap']) {
    for (const parameters of [{ faces: '{}' }, { faces_sha256: digest }, {}])
      expect(await takes(capability, parameters), JSON.stringify(parameters)).toBe(true);
    for (const parameters of [{ faces_sha256: '' }, { faces_sha256: digest, faces: '{}' }])
      expect(await takes(capability, parameters), JSON.stringify(parameters)).toBe(false);
  }
  const stills = { capability: 'avatar', inputs: [{ name: 'image', key: KEY }] };
  expect(await admissionTakes({ ...stills, parameters: { script: 'x', faces: '{}' } })).toBe(false);
});

it('what the voice sounds like: the values that the API takes, and not beside a voice', async () => {
  const inputs = [{ name: 'image', key: KEY }];
  for (const [gender, voice_id] of [['female'], ['male'], ['Male'], ['other'], [''], ['male', 'slt']]) {
    const api = apiTakes('avatar', {
      ...goodBody('avatar'),
      voice: { gender },
      ...(voice_id && { voice_id }),
    });
    const parameters = { script: 'x', voice_gender: gender, ...(voice_id && { voice_id }) };
    expect([gender, voice_id, await admissionTakes({ capability: 'avatar', inputs, parameters })]).toEqual([
      gender,
      voice_id,
      api,
    ]);
    expect(api).toBe(voice_id === undefined && (gender === 'female' || gender === 'male'));
  }
});

it.each(['', 'Urgent', 'a b', '-a', 'a-', 'a..b', 'a_b', 'x'.repeat(254)])(
  'a name of a PriorityClass that none can have is refused: %j',
  async (priorityClassName) => {
    const good = specOf('face-swap-image', goodBody('face-swap-image'));
    expect(await admissionTakes({ ...good, priorityClassName })).toBe(false);
  },
);
