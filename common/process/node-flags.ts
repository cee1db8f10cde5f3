/**
 * Node's flags for the services, here, in the images and in the chart. What outlives a request is 20 MB, and V8 sizes its
 * old generation by that: the buffers of an upload of 500 MiB then set off a collection of everything 20 to 30 times, a
 * third of its CPU. A size to begin with puts them off until there is that much to collect. NODE_OPTIONS may not name it.
 */
export const SERVICE_FLAGS = ['--initial-old-space-size=128'] as const;
