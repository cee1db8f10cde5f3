/** Progress of a build, reported at every change. */
export type Progress = {
  /** Name and version of the tool, such as `kube-apiserver 1.36.3`. */
  what: string;
  /** Position among all builds, from 1. */
  step: number;
  steps: number;
  phase:
    | 'planned'
    | 'fetching'
    | 'no-download'
    | 'waiting'
    | 'downloading'
    | 'compiling'
    | 'linking'
    | 'built';
  /** Finished packages; modules while downloading; bytes while fetching. */
  done: number;
  /** Total in the same unit; 0 while unknown. */
  total: number;
  /** Time since this step began, in ms. */
  elapsedMs: number;
  /** Details, such as the reason of a wait or the arriving module. */
  detail?: string;
};

export type Report = (progress: Progress) => void;

/**
 * Returns a line such as `Compiling kube-apiserver 1.36.3 (3 of 4): 812 of 1788 packages, 1 min 20 s, about 2 min
 * left`.
 */
export function describeProgress(progress: Progress): string {
  const { what, step, steps, phase, done, total, elapsedMs, detail } = progress;
  const name = steps > 1 ? `${what} (${step} of ${steps})` : what;
  const elapsed = describeDuration(elapsedMs);
  switch (phase) {
    case 'planned':
      return `Building, once for all: ${detail}. With two idle cores all of them take five to eight minutes.`;
    case 'fetching': {
      const [have, all] = [done, total].map((bytes) => (bytes / 2 ** 20).toFixed(1));
      return `Downloading ${name}: ${have}${total > 0 ? ` of ${all}` : ''} MiB, ${elapsed}`;
    }
    case 'no-download':
      return `Building from source: ${detail}`;
    case 'waiting':
      return `Waiting for ${name}: ${detail ?? 'another process builds it'}`;
    case 'downloading':
      return `Downloading the sources of ${name}: ${done} modules, ${elapsed}`;
    case 'compiling': {
      const left = timeLeft(progress);
      return `Compiling ${name}: ${done} of ${total} packages, ${elapsed}${left ? `, ${left}` : ''}`;
    }
    case 'linking':
      return `Compiling the last of ${name}, then linking: ${elapsed}`;
    case 'built':
      return `Built ${name} in ${elapsed}`;
  }
}

/**
 * Extrapolates from the pace so far; undefined at first, because the first packages are small and would promise too
 * much.
 */
function timeLeft({ done, total, elapsedMs }: Progress): string | undefined {
  if (done < total * 0.03 || elapsedMs < 5_000) return undefined;
  return `about ${describeDuration((elapsedMs / done) * (total - done), true)} left`;
}

/** Returns `45 s` or `3 min 20 s`. `rough`: whole minutes from 90 s on, otherwise tens of seconds. */
export function describeDuration(ms: number, rough = false): string {
  const seconds = Math.round(ms / 1000);
  if (rough)
    return seconds >= 90
      ? `${Math.round(seconds / 60)} min`
      : `${Math.max(10, Math.ceil(seconds / 10) * 10)} s`;
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/**
 * Writes progress for people. On a terminal it rewrites one line; elsewhere it writes a line when the phase changes
 * and every ten seconds.
 */
export function progressPrinter(
  stream: NodeJS.WritableStream & { isTTY?: boolean; columns?: number },
): Report {
  let last = { key: '', at: 0 };
  return (progress) => {
    const line = describeProgress(progress);
    const key = `${progress.what} ${progress.phase}`;
    if (stream.isTTY) {
      // A plan is written once and may wrap; a rewritten line must fit the width.
      const shown = ['planned', 'no-download'].includes(progress.phase)
        ? line
        : line.slice(0, Math.max(20, (stream.columns ?? 80) - 1));
      stream.write(
        `\r\u001B[2K${shown}${['built', 'planned', 'no-download'].includes(progress.phase) ? '\n' : ''}`,
      );
      return;
    }
    if (key === last.key && Date.now() - last.at < 10_000) return;
    last = { key, at: Date.now() };
    stream.write(`${line}\n`);
  };
}
