import { setFlagsFromString } from 'node:v8';

/*
 * The operator keeps little and throws away much: of ten thousand RenderJobs some 30 MB live, while V8, which sees a
 * machine with gigabytes to spare, lets several times as much garbage lie. This has it collect earlier. Imported first,
 * so that what the imports leave behind is collected, too.
 */
setFlagsFromString('--optimize-for-size');
/*
 * That alone has it collect whenever the heap has grown by some per cent, a quarter of the processor time of a busy
 * operator. This is the middle between the two, in per cent of what lives.
 */
setFlagsFromString('--heap-growing-percent=40');
