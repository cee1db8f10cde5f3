import type { Row } from '../lib/section.ts';

export const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

export function row(name: string, ours: string, peer = ''): Row {
  return { name, ours, peer, ratio: '', goal: '', met: '' };
}

export function goal(name: string, ours: string, wanted: string, reached: boolean): Row {
  return { ...row(name, ours), goal: wanted, met: wanted === '' ? '' : reached ? 'met' : 'not met' };
}
