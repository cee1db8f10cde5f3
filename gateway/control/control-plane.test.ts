import type { ServerResponse } from 'node:http';
import { type GrpcServer, startGrpcServer, unary } from '@semblance/common/grpc/server';
import { silentLogger } from '@semblance/common/logging';
import {
  type ControlServiceServer,
  ControlServiceService,
  type SubmitJobRequest,
  type SubmitJobResult,
  type SubmitJobsRequest,
} from '@semblance/proto/semblance/control/v1/control';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, it } from 'vitest';
import type { GatewayContext } from '../http/context.ts';
import { createMetrics } from '../metrics.ts';
import { type ControlPlane, connectControlPlane } from './control-plane.ts';

let server: GrpcServer | undefined;
let control: ControlPlane | undefined;
afterEach(async () => {
  control?.close();
  await server?.close(0);
});

/** Returns a client of a control plane that does only what the test says. */
async function connect(implementation: Partial<ControlServiceServer>): Promise<ControlPlane> {
  server = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    services: [
      {
        name: 'semblance.control.v1.ControlService',
        definition: ControlServiceService,
        implementation: implementation as ControlServiceServer & Record<string, never>,
      },
    ],
  });
  control = connectControlPlane({
    address: `127.0.0.1:${server.port}`,
    metrics: createMetrics(new Registry()),
    timeoutMs: 20_000,
  });
  return control;
}

function context(requestId: string) {
  const headers: Record<string, string> = {};
  const res = {
    setHeader(name: string, value: string) {
      headers[name.toLowerCase()] = value;
    },
  };
  const set = (name: string, value: string) => res.setHeader(name, value);
  const ctx = { state: { requestId }, res: res as unknown as ServerResponse, headerSent: false, set };
  return { ctx: ctx as unknown as GatewayContext, headers };
}

const request = (key: string): SubmitJobRequest => ({
  capability: 'face-swap-image',
  inputs: { image: key },
  parameters: {},
  engineOptions: {},
});
const submitted = (id: string) => ({
  id,
  status: 'queued',
  statusUrl: `/api/v1/jobs/${id}`,
  replayed: false,
});

/** A control plane that answers each submit of a message by its key. */
const answering =
  (results: Record<string, SubmitJobResult>): ControlServiceServer['submitJobs'] =>
  (stream) => {
    stream.on('data', ({ number, requests }: SubmitJobsRequest) => {
      stream.write({
        number,
        results: requests.map(
          ({ inputs }: SubmitJobRequest) => results[inputs.image ?? ''] ?? { rateLimit: '' },
        ),
      });
    });
    stream.on('error', () => {});
  };

describe('submitJob', () => {
  it('gives each submit of a message its own answer, its own limits and its own refusal', async () => {
    const plane = await connect({
      submitJobs: answering({
        a: {
          outcome: { $case: 'submitted', value: submitted('job-a') },
          rateLimit: 'limit=60,remaining=7,reset=9',
        },
        b: {
          outcome: { $case: 'refusal', value: { code: 'rate_limited', message: 'Too many.' } },
          rateLimit: 'limit=60,remaining=0,reset=32',
        },
        c: {
          outcome: { $case: 'refusal', value: { code: 'insufficient_balance', message: 'No.' } },
          rateLimit: '',
        },
      }),
    });
    const [a, b, c] = [context('r-a'), context('r-b'), context('r-c')];
    const [first, second, third, unanswered] = await Promise.allSettled([
      plane.submitJob(a.ctx, request('a')),
      plane.submitJob(b.ctx, request('b')),
      plane.submitJob(c.ctx, request('c')),
      plane.submitJob(context('r-d').ctx, request('nothing')),
    ]);
    expect(first).toMatchObject({ value: submitted('job-a') });
    expect(a.headers).toMatchObject({ 'ratelimit-remaining': '7' });
    expect(second).toMatchObject({ reason: { code: 'rate_limited', httpStatus: 429, message: 'Too many.' } });
    expect(b.headers).toMatchObject({ 'ratelimit-remaining': '0', 'retry-after': '32' });
    expect(third).toMatchObject({ reason: { code: 'insufficient_balance', httpStatus: 402 } });
    expect(c.headers).toEqual({});
    expect(unanswered).toMatchObject({ reason: { code: 'internal_error', httpStatus: 502 } });
  });

  it('submits nothing twice when the stream breaks', async () => {
    let taken = 0;
    let alone = 0;
    const plane = await connect({
      submitJobs(stream) {
        stream.on('data', ({ requests }: SubmitJobsRequest) => {
          taken += requests.length;
          stream.emit('error', new Error('broken'));
        });
        stream.on('error', () => {});
      },
      submitJob: unary(silentLogger(), async () => {
        alone++;
        return submitted('job-a');
      }),
    });
    const outcome = await plane.submitJob(context('r').ctx, request('a')).catch((error) => error);
    expect(outcome).toMatchObject({ code: 'internal_error', httpStatus: 502 });
    expect([taken, alone]).toEqual([1, 0]);
  });
});
