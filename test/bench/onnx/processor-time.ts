/** Returns the processor time of this thread, in milliseconds. */
export function threadTime(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

/** Returns the processor time of all threads of this process, in milliseconds. */
export function processTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
