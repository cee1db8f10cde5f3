/**
 * Node's flags for the agent, in the local stack, the image and the chart. Of a thread of Live Swap Pro 15 MB of objects
 * live on, and V8 sizes its old generation by that: what eight pictures leave then sets off a collection of everything,
 * whose marking, 15 to 25 ms, falls into decoding or encoding. With a size to begin with a run of the bench has 34 of
 * them instead of 183; by turns on one core p50, p95 and p99 of a picture are 20.6, 31.8 and 66.1 ms instead of 26.8,
 * 84.2 and 127, for at most 624 MB instead of 484. Each thread may use that much: four streams take 350 MiB more.
 */
export const AGENT_FLAGS = ['--initial-old-space-size=128'] as const;
