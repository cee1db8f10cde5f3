import { endEarly } from '@semblance/common/process/end-early';

endEarly();
await import('./serve.ts');
