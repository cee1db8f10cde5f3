export interface XmpFacts {
  readonly digitalSourceType: string;
  /** Name and version of the program that made the file. */
  readonly creatorTool: string;
  /** Identifier of this file, if it has one; the manifest carries the same. */
  readonly instanceId?: string;
}

/** Returns an XMP packet that describes how the media was made. IPTC's source type exists only in XMP, not in IIM. */
export function xmpPacket(facts: XmpFacts): Uint8Array {
  const { digitalSourceType, creatorTool, instanceId } = facts;
  const named = instanceId === undefined ? '' : ` xmpMM:InstanceID="${escaped(instanceId)}"`;
  const lines = [
    '<?xpacket begin="\uFEFF" id="W5M0MpCehiHzreSzNTczkc9d"?>',
    '<x:xmpmeta xmlns:x="adobe:ns:meta/">',
    ' <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">',
    '  <rdf:Description rdf:about=""',
    '    xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/"',
    '    xmlns:xmp="http://ns.adobe.com/xap/1.0/"',
    '    xmlns:xmpMM="http://ns.adobe.com/xap/1.0/mm/"',
    `    Iptc4xmpExt:DigitalSourceType="${escaped(digitalSourceType)}"`,
    `    xmp:CreatorTool="${escaped(creatorTool)}"${named}/>`,
    ' </rdf:RDF>',
    '</x:xmpmeta>',
    '<?xpacket end="r"?>',
  ];
  return Buffer.from(lines.join('\n'));
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
