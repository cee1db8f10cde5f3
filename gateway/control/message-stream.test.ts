import { setTimeout as delay } from 'node:timers/promises';
import { type ServerDuplexStream, status } from '@grpc/grpc-js';
import { createClient } from '@semblance/common/grpc/client';
import { type GrpcServer, startGrpcServer } from '@semblance/common/grpc/server';
import { freePort } from '@semblance/local/process/ports';
import {
  ControlServiceClient,
  ControlServiceService,
  type GetJobRequest,
  type GetJobResult,
  type ReadJobsRequest,
  type ReadJobsResponse,
} from '@semblance/proto/semblance/control/v1/control';
import { afterEach, describe, expect, it } from 'vitest';
import { createMessageStream, type MessageStream } from './message-stream.ts';

type Stream = ServerDuplexStream<ReadJobsRequest, ReadJobsResponse>;
type Reads = MessageStream<GetJobRequest, GetJobResult>;
type OnMessage = (stream: Stream, request: ReadJobsRequest, streamNumber: number) => void;

let server: GrpcServer | undefined;
let client: ControlServiceClient | undefined;
let reads: Reads | undefined;
let streams = 0;

/** Serves a control plane that treats the messages of reads as the test says. */
async function serve(onMessage: OnMessage, port = 0): Promise<number> {
  server = await startGrpcServer({
    listen: { host: '127.0.0.1', port },
    services: [
      {
        name: 'semblance.control.v1.ControlService',
        definition: ControlServiceService,
        implementation: {
          readJobs(stream: Stream) {
            const number = ++streams;
            stream.on('data', (request: ReadJobsRequest) => onMessage(stream, request, number));
            stream.on('error', () => {});
          },
        },
      },
    ],
  });
  return server.port;
}

function connect(port: number): Reads {
  const made = createClient(ControlServiceClient, `127.0.0.1:${port}`);
  client = made;
  reads = createMessageStream({ open: () => made.readJobs() });
  return reads;
}

afterEach(async () => {
  reads?.close();
  client?.close();
  await server?.close(0);
  streams = 0;
});

const resultFor = (id: string): GetJobResult => ({
  outcome: { $case: 'job', value: { id, status: 'queued' } },
  rateLimit: 'limit=1',
});
const answerTo = ({ number, requests }: ReadJobsRequest): ReadJobsResponse => ({
  number,
  results: requests.map(({ jobId }) => resultFor(jobId)),
});
const requestsFor = (...ids: string[]) => ids.map((jobId) => ({ caller: undefined, jobId }));
const asking = (stream: Reads, id: string, timeoutMs = 60_000) =>
  stream.ask(requestsFor(id), timeoutMs, `r-${id}`).then(
    () => `${id} answered`,
    ({ code }) => `${id} ${status[code]}`,
  );

describe('createMessageStream', () => {
  it('carries many messages on one stream and takes their answers in any order', async () => {
    const held: ReadJobsRequest[] = [];
    const port = await serve((stream, request) => {
      held.push(request);
      if (held.length < 3) return;
      for (const one of held.reverse()) stream.write(answerTo(one));
    });
    const stream = connect(port);
    const all = [['a', 'b'], ['c'], ['d', 'e', 'f']].map((ids) =>
      stream.ask(requestsFor(...ids), 5_000, 'r'),
    );
    const answers = await Promise.all(all);
    expect(
      answers.map((results) => results.map(({ outcome }) => outcome?.$case === 'job' && outcome.value.id)),
    ).toEqual([['a', 'b'], ['c'], ['d', 'e', 'f']]);
    expect(answers[0]?.[0]).toEqual(resultFor('a'));
    expect([streams, held.map(({ requestId }) => requestId)]).toEqual([1, ['r', 'r', 'r']]);
  });

  it('fails what is under way when the stream breaks, and opens another for what comes next', async () => {
    const port = await serve((stream, request, number) => {
      if (number === 1) stream.emit('error', new Error('broken'));
      else stream.write(answerTo(request));
    });
    const stream = connect(port);
    expect(await Promise.all([asking(stream, 'a'), asking(stream, 'b')])).toEqual(['a UNKNOWN', 'b UNKNOWN']);
    expect(await asking(stream, 'c')).toBe('c answered');
    expect(streams).toBe(2);
  });

  it('sends once more what a stream that ended in order left unanswered', async () => {
    const port = await serve((stream, request, number) => {
      const id = request.requests[0]?.jobId;
      if (number === 1 && id === 'b') stream.end();
      else if (number > 1 || id === 'a') stream.write(answerTo(request));
    });
    const stream = connect(port);
    const all = ['a', 'b', 'c'].map((id) => asking(stream, id));
    expect(await Promise.all(all)).toEqual(['a answered', 'b answered', 'c answered']);
    expect(streams).toBe(2);
  });

  it('does not send for ever what nobody takes', async () => {
    const port = await serve((stream) => stream.end());
    expect(await asking(connect(port), 'a')).toBe('a UNAVAILABLE');
    expect(streams).toBe(2);
  });

  it('fails at once while nobody listens, and works again when somebody does', async () => {
    const port = await freePort();
    await serve((stream, request) => void stream.write(answerTo(request)), port);
    const stream = connect(port);
    expect(await asking(stream, 'a')).toBe('a answered');
    await server?.close(0);
    await expect.poll(() => asking(stream, 'b')).toBe('b UNAVAILABLE');
    await serve((stream, request) => void stream.write(answerTo(request)), port);
    await expect.poll(() => asking(stream, 'c')).toBe('c answered');
  });

  it('gives up a message in its own time, and leaves a stream on which nothing is heard', async () => {
    const port = await serve((stream, request, number) => {
      if (number > 1 || request.requests[0]?.jobId === 'first') stream.write(answerTo(request));
    });
    const stream = connect(port);
    expect(await asking(stream, 'first')).toBe('first answered');
    expect(await Promise.all([asking(stream, 'a', 100), asking(stream, 'b', 150)])).toEqual([
      'a DEADLINE_EXCEEDED',
      'b DEADLINE_EXCEEDED',
    ]);
    expect(await asking(stream, 'c')).toBe('c answered');
    expect(streams).toBe(2);
  });

  it('keeps a stream on which only one message goes unanswered', async () => {
    const port = await serve((stream, request) => {
      if (request.requests[0]?.jobId !== 'lost') stream.write(answerTo(request));
    });
    const stream = connect(port);
    const lost = asking(stream, 'lost', 4_000);
    expect(await asking(stream, 'a')).toBe('a answered');
    expect(await lost).toBe('lost DEADLINE_EXCEEDED');
    expect(await asking(stream, 'b')).toBe('b answered');
    expect(streams).toBe(1);
  });

  it('fails what is under way when it is closed', async () => {
    const port = await serve(() => {});
    const stream = connect(port);
    const waiting = asking(stream, 'a');
    await delay(50);
    stream.close();
    expect(await waiting).toBe('a CANCELLED');
  });
});
