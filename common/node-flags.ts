/**
 * Node flags of every service, in the local stack, the image and the chart. V8's compiler Maglev now and then makes
 * code that computes a wrong number, or ends the process, on a machine whose cores are busy (docs/adr/0094).
 */
export const NODE_FLAGS = ['--no-maglev'] as const;
