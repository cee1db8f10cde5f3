/** A mono WAV file of 16 bits. */
export function wavFile(samples: Float32Array, rate: number): Buffer {
  const file = Buffer.alloc(44 + 2 * samples.length);
  file.write('RIFF', 0);
  file.writeUInt32LE(36 + 2 * samples.length, 4);
  file.write('WAVEfmt ', 8);
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(1, 20);
  file.writeUInt16LE(1, 22);
  file.writeUInt32LE(rate, 24);
  file.writeUInt32LE(2 * rate, 28);
  file.writeUInt16LE(2, 32);
  file.writeUInt16LE(16, 34);
  file.write('data', 36);
  file.writeUInt32LE(2 * samples.length, 40);
  for (let i = 0; i < samples.length; i++)
    file.writeInt16LE(Math.round(32767 * Math.min(1, Math.max(-1, samples[i] as number))), 44 + 2 * i);
  return file;
}
