import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';

export interface JobProgress {
  readonly attempt: number;
  readonly progress: number;
  readonly eta_seconds: number | null;
}

export interface JobQueue {
  readonly position?: number;
  readonly reason?: string;
}

interface Told {
  readonly progress?: JobProgress;
  readonly queue?: JobQueue;
}

/** Follows a job by the stream of its events. EventSource sends no headers, so the stream is read with fetch. */
export function useJobEvents(path: string): Told {
  const client = useQueryClient();
  const [told, setTold] = useState<Told>({});
  useEffect(() => {
    const end = new AbortController();
    const hear = (event: string, data: unknown) => {
      if (event === 'progress') setTold({ progress: data as JobProgress });
      else if (event === 'queue') setTold({ queue: data as JobQueue });
      else if (event === 'status') client.setQueryData([path], data);
    };
    // Where the stream breaks off, the page reads the job again every few seconds all the same.
    readEvents(`/api/v1${path}/events`, hear, end.signal).catch(() => {});
    return () => end.abort();
  }, [client, path]);
  return told;
}

async function readEvents(
  url: string,
  hear: (event: string, data: unknown) => void,
  signal: AbortSignal,
): Promise<void> {
  const { body, ok } = await fetch(url, { headers: { 'Semblance-Console': '1' }, signal });
  if (!ok || !body) return;
  let rest = '';
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const event = /^event: (.*)$/m.exec(block)?.[1];
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (event && data) hear(event, JSON.parse(data));
    }
  }
}
