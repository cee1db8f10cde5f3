import { loadConfig } from '@semblance/common/config';
import { describe, expect, it } from 'vitest';
import { operatorShape } from './config.ts';

const NEEDED = {
  KUBECONFIG: '/k',
  SEMBLANCE_OBJECTS_URL: 'file:///o',
  SEMBLANCE_OBJECTS_SIGNING_KEY: '00'.repeat(32),
  SEMBLANCE_PUBLIC_URL: 'http://localhost:1',
};
const weights = (text?: string) =>
  loadConfig(operatorShape, {
    ...NEEDED,
    ...(text === undefined ? {} : { SEMBLANCE_ACCOUNT_WEIGHTS: text }),
  }).SEMBLANCE_ACCOUNT_WEIGHTS;

describe('SEMBLANCE_ACCOUNT_WEIGHTS', () => {
  it.each([
    [undefined, []],
    ['', []],
    [
      ' acc-1 = 3 ,acc-2=0.5,',
      [
        ['acc-1', 3],
        ['acc-2', 0.5],
      ],
    ],
  ])('is a list: %s', (text, expected) => {
    expect([...weights(text)]).toEqual(expected);
  });

  it.each(['acc-1', 'acc-1=', '=2', 'acc-1=0', 'acc-1=-1', 'acc-1=many', 'acc-1=1001'])(
    'refuses %s',
    (text) => {
      expect(() => weights(text)).toThrow('SEMBLANCE_ACCOUNT_WEIGHTS: must be account=weight');
    },
  );
});
