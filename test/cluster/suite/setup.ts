import { beforeEach } from 'vitest';
import { diagnosis } from './diagnosis.ts';

const begun = Date.now();

beforeEach(({ task, onTestFailed }) => {
  console.log(`${Math.round((Date.now() - begun) / 1000)} s: ${task.name}`);
  onTestFailed(async () => console.log(await diagnosis()));
});
