import { endEarly } from '#common/process/end-early.ts';

endEarly();
await import('./serve.ts');
