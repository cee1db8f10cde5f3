import type { RenderJob } from '@semblance/crds/gen/renderjobs';

export function isFinished({ status }: RenderJob): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

export function hasBegun({ status }: RenderJob): boolean {
  return (status?.attempt ?? 0) > 0 || status?.phase === 'Assigned' || status?.phase === 'Running';
}
