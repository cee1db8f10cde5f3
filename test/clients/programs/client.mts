import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import * as api from './api.ts';

api.defaults.headers = { authorization: `Bearer ${process.env.API_KEY}` };

/** Returns the data of a success; every other answer has the same type. */
function taken<Data>(answer: { status: number; data: Data | api.ErrorEnvelope }): Data {
  if (answer.status === 200) return answer.data as Data;
  const { error } = answer.data as api.ErrorEnvelope;
  throw new Error(`${answer.status} ${error.code}: ${error.message}`);
}

async function upload(name: string, type: string): Promise<string> {
  const answer = await api.upload({ file: new File([await readFile(name)], name, { type }) });
  if (answer.status !== 200) throw new Error(answer.data.error.message);
  return answer.data.file_key;
}

const image_key = await upload('base.jpg', 'image/jpeg');
const face_key = await upload('face.png', 'image/png');
const submitted = taken<api.Submitted>(
  await api.submitPhotoSwap({ image_key, face_key }, { idempotencyKey: 'one' }),
);
let job: api.Job;
do {
  await delay(1_000);
  job = taken<api.Job>(await api.getJob(submitted.id));
} while (job.status === 'queued' || job.status === 'processing' || job.charged_usd === null);
const output = await fetch(job.output_url ?? '');

const invalid = await api.submitPhotoSwap({ image_key: 'api/nothing', face_key });
const unknown = await api.getJob('job-unknown');
const refusals = [
  invalid.status === 400 ? invalid.data.error.code : undefined,
  unknown.status === 404 ? unknown.data.error.code : undefined,
];

const opened = taken<api.VoiceSwapSession>(await api.openVoiceSwap({ duration_minutes: 1 }));
const sessions = taken<api.Session[]>(await api.listSessions({ open: 'true', limit: 1 }));
const ended = taken<api.Session>(await api.endSession(opened.session_id));

console.log(
  JSON.stringify({
    job: {
      status: job.status,
      charged_usd: job.charged_usd,
      output: output.headers.get('content-type')?.split('/')[0],
    },
    refusals,
    session: {
      opened: opened.session_token.length > 0 && opened.max_duration_sec === 60,
      listed: sessions.find(({ session_id }) => session_id === opened.session_id)?.status,
      ended: ended.session_id === opened.session_id,
    },
  }),
);
