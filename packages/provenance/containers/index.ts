import type { FileHandle } from 'node:fs/promises';
import type { Container } from './container.ts';
import { openJpeg } from './jpeg.ts';
import { openMp4 } from './mp4.ts';
import { openPng } from './png.ts';
import { openWebp } from './webp.ts';

type Open = (file: FileHandle, size: number) => Promise<Container>;

/** Readers for every file type that can be marked. */
export const CONTAINERS: Readonly<Record<string, Open>> = {
  'image/jpeg': openJpeg,
  'image/png': openPng,
  'image/webp': openWebp,
  'video/mp4': openMp4,
};
