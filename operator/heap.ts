import { setFlagsFromString } from 'node:v8';

/*
 * The operator keeps little and discards much: of ten thousand RenderJobs some 30 MB live. V8 sees a machine with
 * gigabytes to spare and leaves several times as much garbage. This makes it collect earlier. Imported first, so
 * that the garbage of the imports is collected, too.
 */
setFlagsFromString('--optimize-for-size');
/*
 * `--optimize-for-size` alone collects after little growth, which takes a quarter of a busy operator's processor time. This value, in percent of the live heap, is a compromise.
 */
setFlagsFromString('--heap-growing-percent=40');
