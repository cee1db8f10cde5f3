import { createSocket } from 'node:dgram';

/** Response codes of DNS (RFC 1035). */
export const RCODES = { fine: 0, failed: 2, unknown: 3 } as const;

interface Records {
  readonly a?: readonly string[];
  /** With all eight groups. */
  readonly aaaa?: readonly string[];
  readonly rcode?: number;
}

/** Answers a name; undefined: there is no answer. `asked` counts the earlier questions for its A records. */
export type Zone = (name: string, asked: number) => Records | undefined;

/** Starts a name server of two record types, without caching. `questions` has those for A records, as `A name`. */
export async function startNameServer(zone: Zone) {
  const questions: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (message, from) => {
    const labels: string[] = [];
    let at = 12;
    for (let size = message[at]; size; size = message[at]) {
      labels.push(message.toString('latin1', at + 1, at + 1 + size));
      at += size + 1;
    }
    const name = labels.join('.').toLowerCase();
    const type = message.readUInt16BE(at + 1);
    const asked = questions.filter((question) => question === `A ${name}`).length;
    if (type === 1) questions.push(`A ${name}`);
    const records = zone(name, type === 1 ? asked : Math.max(0, asked - 1));
    if (!records) return;
    const { a = [], aaaa = [], rcode = RCODES.fine } = records;
    const data = type === 1 ? a.map(bytesOfV4) : type === 28 ? aaaa.map(bytesOfV6) : [];
    const head = Buffer.alloc(12);
    head.writeUInt16BE(message.readUInt16BE(0), 0);
    head.writeUInt16BE(0x8400 + rcode, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(data.length, 6);
    const answers = data.map((bytes) => {
      const record = Buffer.alloc(12);
      record.writeUInt16BE(0xc00c, 0);
      record.writeUInt16BE(type, 2);
      record.writeUInt16BE(1, 4);
      record.writeUInt16BE(bytes.length, 10);
      return Buffer.concat([record, bytes]);
    });
    socket.send(Buffer.concat([head, message.subarray(12, at + 5), ...answers]), from.port, from.address);
  });
  await new Promise<void>((bound) => socket.bind(0, '127.0.0.1', bound));
  return {
    questions: questions as readonly string[],
    servers: [`127.0.0.1:${socket.address().port}`],
    close: () => new Promise<void>((closed) => socket.close(() => closed())),
  };
}

const bytesOfV4 = (address: string) => Buffer.from(address.split('.').map(Number));

function bytesOfV6(address: string): Buffer {
  const groups = address.split(':').map((group) => Number.parseInt(group, 16));
  const bytes = Buffer.alloc(16);
  groups.forEach((group, i) => void bytes.writeUInt16BE(group, i * 2));
  return bytes;
}
