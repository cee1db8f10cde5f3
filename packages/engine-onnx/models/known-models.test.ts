import { describe, expect, it } from 'vitest';
import { CONTRACTS } from '../contracts/catalog.ts';
import { forbidsCommerce, KNOWN_HASHES, knownLicence, knownModel } from './known-models.ts';

describe('the table of public files', () => {
  it.each(KNOWN_HASHES)('%s has a contract and a licence', (sha256) => {
    expect(sha256).toMatch(/^[0-9a-f]{64}$/);
    const contract = knownModel(sha256)?.contract ?? '';
    expect(CONTRACTS.has(contract)).toBe(true);
    expect(knownLicence(contract)?.text).toBeTruthy();
  });

  it('marks as non-commercial what its words say', () => {
    for (const contract of CONTRACTS.keys()) {
      const licence = knownLicence(contract);
      if (licence)
        expect([contract, forbidsCommerce(licence.text)]).toEqual([contract, licence.nonCommercial]);
    }
  });
});

describe('whether words forbid commercial use', () => {
  it.each([
    ['InsightFace, non-commercial research only', true],
    ['CC BY-NC 4.0', true],
    ['Weights for research purposes', true],
    ['Apache-2.0', false],
    ['MIT', false],
    ['GPL-3.0', false],
    ['bought from the author on 2026-03-01, commercial use allowed', false],
  ])('%s: %s', (licence, forbidden) => {
    expect(forbidsCommerce(licence)).toBe(forbidden);
  });
});
