/** Metadata of a WAV file. */
export interface WavMarks {
  /** Program that made the file, with its version. */
  readonly software: string;
  readonly comment: string;
  readonly xmp: Uint8Array;
}

/**
 * Returns a WAV file, mono, 16 bits. Its metadata follow the sound, where every player skips them: a LIST of INFO
 * (Multimedia Programming Interface 1.0, 1991) and XMP in `_PMX` (XMP specification, part 3).
 */
export function encodeWav(samples: Int16Array, sampleRate: number, marks: WavMarks): Buffer {
  const format = Buffer.alloc(16);
  format.writeUInt16LE(1, 0);
  format.writeUInt16LE(1, 2);
  format.writeUInt32LE(sampleRate, 4);
  format.writeUInt32LE(2 * sampleRate, 8);
  format.writeUInt16LE(2, 12);
  format.writeUInt16LE(16, 14);
  const data = Buffer.alloc(2 * samples.length);
  for (const [i, sample] of samples.entries()) data.writeInt16LE(sample, 2 * i);
  const info = [chunk('ISFT', text(marks.software)), chunk('ICMT', text(marks.comment))];
  const chunks = [
    chunk('fmt ', format),
    chunk('data', data),
    chunk('LIST', Buffer.concat([Buffer.from('INFO'), ...info])),
    chunk('_PMX', marks.xmp),
  ];
  return chunk('RIFF', Buffer.concat([Buffer.from('WAVE'), ...chunks]));
}

const text = (value: string): Buffer => Buffer.from(`${value}\0`);

/** The padding makes chunks begin at even offsets. */
function chunk(name: string, content: Uint8Array): Buffer {
  const head = Buffer.alloc(8);
  head.write(name, 'latin1');
  head.writeUInt32LE(content.length, 4);
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)]);
}
