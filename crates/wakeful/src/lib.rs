//! wakeful
