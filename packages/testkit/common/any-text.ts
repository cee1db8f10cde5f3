import fc, { type Arbitrary } from 'fast-check';

const UNIT = fc.oneof(
  fc.integer({ min: 0x20, max: 0x7e }),
  fc.integer({ min: 0, max: 0x17f }),
  fc.integer({ min: 0, max: 0xffff }),
  fc.constantFrom(0, 0x0a, 0x0d, 0x22, 0x25, 0x5c, 0x7f, 0xd800, 0xdfff, 0xfeff),
);

/**
 * Returns an arbitrary of text of any UTF-16 code units, also ill-formed, mostly near ASCII. fast-check's own
 * `unit: 'binary'` needs three seconds to initialise.
 */
export function anyText(maxLength = 40): Arbitrary<string> {
  return fc.array(UNIT, { maxLength }).map((units) => String.fromCharCode(...units));
}
