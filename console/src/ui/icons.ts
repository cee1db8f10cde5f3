/** The icons of the console. One by one: the whole package takes seconds to build. */
export { default as IconActivity } from 'lucide-react/icons/activity';
export { default as IconChartBar } from 'lucide-react/icons/chart-column';
export { default as IconCheck } from 'lucide-react/icons/check';
export { default as IconCopy } from 'lucide-react/icons/copy';
export { default as IconDownload } from 'lucide-react/icons/download';
export { default as IconFileShredder } from 'lucide-react/icons/file-x';
export { default as IconHome } from 'lucide-react/icons/house';
export { default as IconPhoto } from 'lucide-react/icons/image';
export { default as IconInbox } from 'lucide-react/icons/inbox';
export { default as IconKey } from 'lucide-react/icons/key-round';
export { default as IconStack2 } from 'lucide-react/icons/layers';
export { default as IconLogout } from 'lucide-react/icons/log-out';
export { default as IconDeviceDesktop } from 'lucide-react/icons/monitor';
export { default as IconMoon } from 'lucide-react/icons/moon';
export { default as IconSun } from 'lucide-react/icons/sun';
export { default as IconAlertTriangle } from 'lucide-react/icons/triangle-alert';
export { default as IconWebhook } from 'lucide-react/icons/webhook';
